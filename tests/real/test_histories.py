"""Plays a few random histories of one queue, on a master and a slave: see `make histories`."""

import pytest

from sandbox import jars
from tests.histories import ground, player
from tests.histories.deleting import ByRelay

pytestmark = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")

HISTORIES = 10


def test_whatever_a_reader_did_not_give_has_a_reason(seed: int) -> None:
    with ground.started() as brokers:
        deleting = ByRelay(brokers)
        failures = [player.play(brokers, deleting, seed + number) for number in range(HISTORIES)]
    told = [str(failure) for failure in failures if failure]
    assert not told, "\n\n".join(told)
