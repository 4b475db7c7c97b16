"""Which handlers can get popped messages."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from contract.following import GroupSource, PopTerms
from follower.brokers import GroupBrokers
from follower.member import Follower
from follower.options import FollowerError
from follower.popping.ordered import OrderedBrokers

TERMS = PopTerms(["orders"], 60.0, 1, 16, 10.0)
BY_MESSAGE = GroupSource("billing", ["127.0.0.1:1"], messages=TERMS)
IN_ORDER = GroupSource("billing", ["127.0.0.1:1"], ordered=TERMS)
BY_QUEUE = GroupSource("billing", ["127.0.0.1:1"], leftovers=TERMS)


class WithPositions:
    def read_position(self, group: str, queue: object) -> None:
        pass

    def __call__(self, messages: object, step: object) -> None:
        pass


def handle(messages: object) -> None:
    pass


def make(handler: Callable[..., Any]) -> Follower:
    return Follower(handler, coordinator="http://127.0.0.1:1", group="shop/billing")


def test_handlers_that_keep_positions_get_no_popped_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    follower = make(WithPositions())
    with pytest.raises(FollowerError, match="keeps positions of queues"):
        follower._start_pops(BY_MESSAGE, TERMS)
    with pytest.raises(FollowerError, match="keeps positions of queues"):
        follower._open_brokers(IN_ORDER)
    with caplog.at_level(logging.WARNING):
        assert follower._start_pops(BY_QUEUE, TERMS) is None
    assert "other members get them" in caplog.text


def test_each_way_of_reading_has_its_own_brokers() -> None:
    async def story() -> None:
        follower = make(handle)
        for source, kind in ((BY_QUEUE, GroupBrokers), (IN_ORDER, OrderedBrokers)):
            brokers = follower._open_brokers(source)
            assert type(brokers) is kind
            await brokers.close()

    asyncio.run(story())
