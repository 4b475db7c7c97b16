"""The demo's sender repeats refused messages, but not those without an answer."""

import asyncio
from collections.abc import Iterator

import pytest

from demo.sender import A_BATCH, Sender
from mq_client import errors
from mq_client.choosers import Chooser
from mq_client.messages import Message

BUSY = errors.BusyError("SEND_BATCH_MESSAGE orders", "a:1", 2, "broker busy")
SILENT = errors.DeadlineError("no answer")


class Broker:
    """Stores messages, unless an error is due; sets an event after the last answer."""

    def __init__(self, *answers: errors.MqError | None) -> None:
        self.stored: list[int] = []
        self.is_done = asyncio.Event()
        self._answers: Iterator[errors.MqError | None] = iter(answers)
        self._left = len(answers)

    async def send(self, batch: list[Message], _: Chooser, tries: int) -> None:
        assert tries == 1, "a message that is sent again may be stored twice"
        self._left -= 1
        if self._left == 0:
            self.is_done.set()
        error = next(self._answers, None)
        if error is not None:
            raise error
        self.stored += [int(message.body) for message in batch]


async def _sent_to(broker: Broker) -> int:
    async with Sender(broker, "orders") as sender:  # type: ignore[arg-type]
        await asyncio.wait_for(broker.is_done.wait(), 10)
    return sender.sent


def test_what_a_broker_refused_is_sent_again() -> None:
    broker = Broker(None, BUSY, BUSY, None)
    sent = asyncio.run(_sent_to(broker))
    assert sent >= 2 * A_BATCH
    assert broker.stored == list(range(sent))


def test_what_a_broker_fell_silent_about_ends_the_demo() -> None:
    with pytest.raises(errors.DeadlineError):
        asyncio.run(_sent_to(Broker(None, SILENT)))


def test_who_waits_for_messages_is_told_that_none_will_come() -> None:
    async def wait() -> None:
        broker = Broker(None, SILENT)
        sender = Sender(broker, "orders")  # type: ignore[arg-type]
        async with sender:
            sender.refuse_if_failed()
            await asyncio.wait_for(broker.is_done.wait(), 10)
            while True:
                await asyncio.sleep(0)
                sender.refuse_if_failed()

    with pytest.raises(errors.DeadlineError):
        asyncio.run(wait())
