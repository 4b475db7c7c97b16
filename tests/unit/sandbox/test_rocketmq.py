"""A RocketMQ is not started where it would delete messages."""

from pathlib import Path

import pytest

from sandbox import rocketmq
from sandbox.process import SandboxError


@pytest.mark.parametrize("used", [580, 0])
def test_a_disk_with_room_is_used(used: int) -> None:
    rocketmq.check_disk(Path("/tmp"), used, free=120)


def test_a_disk_that_is_almost_full_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(SandboxError, match=r"disk of /tmp is 84 % full.*85 % full: free some"):
        rocketmq.check_disk(Path("/tmp"), used=840, free=160)
