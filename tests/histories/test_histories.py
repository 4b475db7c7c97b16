"""
Plays 200 random histories of one queue on real brokers, which delete messages: `make histories`.

Each history has its own seed, counted from `--seed`. To repeat the history with seed N, pass
`--histories 1 --seed N`.
"""

import time

import pytest

from sandbox import jars
from sandbox.waiting import wait_for
from tests.histories import ground, player
from tests.histories.deleting import ByBroker

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


def test_whatever_a_reader_did_not_give_has_a_reason(
    seed: int, pytestconfig: pytest.Config, capsys: pytest.CaptureFixture[str]
) -> None:
    count = int(pytestconfig.getoption("histories"))
    with ground.started() as brokers:
        since = time.monotonic()
        assert wait_for(
            lambda: time.monotonic() - since > ground.DELETES_AFTER_SECONDS,
            bool, 2 * ground.DELETES_AFTER_SECONDS, 1.0,
        )  # fmt: skip
        deleting = ByBroker(brokers)
        failures = []
        for number in range(count):
            failures.append(player.play(brokers, deleting, seed + number))
            if (number + 1) % 10 == 0:
                with capsys.disabled():
                    print(f"\n{number + 1} of {count} played", end="", flush=True)  # noqa: T201
    told = [str(failure) for failure in failures if failure]
    assert not told, f"{len(told)} of {count} are unexplained\n" + "\n\n".join(told)
