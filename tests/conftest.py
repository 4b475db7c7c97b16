"""
Sets up what all tests share: the seed of random data, and the order of the tests.

A random test takes the fixture `seed`, which is new in each run unless `--seed N` sets it. When
such a test fails, the report ends with a call that shows the same failure again.

`make test` runs the tests in two processes (pytest-xdist), which take one file at a time. Each
process has its own servers, and both have the same seed. With one core, or with `-n 0`, there is
one process.
"""

import os
import random
import shlex
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

# No deadline: a shared machine can pause. With the blob, Hypothesis can repeat a case.
hypothesis.settings.register_profile("evenkeel", deadline=None, print_blob=True)
hypothesis.settings.load_profile("evenkeel")

_SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, metavar="N", help="seed of random tests; default: fresh")
    parser.addoption("--histories", type=int, default=200, help="how many `make histories` plays")
    parser.addoption(
        "--messages", type=int, default=4000, help="how many `make exactly-once` sends"
    )
    parser.addoption(
        "--outage-seconds",
        type=float,
        default=3.0,
        metavar="N",
        help="how long outages last; 3",
    )


def pytest_configure(config: pytest.Config) -> None:
    given: int | None = config.getoption("--seed")
    given = getattr(config, "workerinput", {}).get("seed", given)
    config.stash[_SEED] = random.SystemRandom().getrandbits(32) if given is None else given


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Choose how many processes `-n auto` means: more than two would only start more servers."""
    return 2 if (os.cpu_count() or 1) > 1 else 0


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of pytest-xdist the seed of the run."""
    node.workerinput["seed"] = node.config.stash[_SEED]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests import two_ends

        items[:] = two_ends.in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests import two_ends

    return two_ends.FromTwoEnds(config, log)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.stash[_SEED]} (--seed repeats it)"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    return pytestconfig.stash[_SEED]


@pytest.fixture
def rng(seed: int) -> random.Random:
    return random.Random(seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and "seed" in getattr(item, "fixturenames", ()):
        number = item.config.stash[_SEED]
        again = f".venv/bin/python -m pytest {shlex.quote(item.nodeid)} --seed {number}"
        report.sections.append(("seed", f"seed={number}; the same again:\n{again}"))
    return report
