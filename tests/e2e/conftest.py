"""A node for all tests of this folder, which need root."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import node, process

pytest.register_assert_rewrite("tests.e2e.shop", "tests.e2e.story", "tests.real.cluster.running")

from tests.e2e.shop import Shop  # noqa: E402 its asserts are to tell what they saw


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """What pods write outlives them here: whoever they are, they may."""
    with process.folder("evenkeel-e2e-") as place:
        place.path.chmod(0o777)
        yield place.path


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[Shop]:
    with node.started() as found:
        it = Shop(found, folder)
        try:
            yield it
        finally:
            it.end_numbers()
