"""Runs one node for all tests of this folder. The tests must run as root."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import node, process

pytest.register_assert_rewrite(
    *(
        f"tests.e2e.{name}"
        for name in ("checked", "checked_members", "job_story", "leading", "members_story")
    )
)

from tests.e2e.checked import CheckedShop  # noqa: E402 its asserts must be rewritten first


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder for data that outlives pods. Pods can write to it as any user."""
    with process.make_folder("evenkeel-e2e-") as place:
        place.path.chmod(0o777)
        yield place.path


@pytest.fixture(scope="module")
def shop(folder: Path) -> Iterator[CheckedShop]:
    with node.run() as found:
        it = CheckedShop(found, folder)
        try:
            yield it
        finally:
            it.end_numbers()
            it.members.stop_sending()
            it.poppers.stop_sending()
