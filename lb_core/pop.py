"""
The share rule of message-granular consumption, where a queue may have several consumers.

In this mode (POP), RocketMQ's broker assigns the queues to the consumers. `share` is the number of
neighbours whose queues a consumer also reads. No consumer is ever idle, because each consumer gets

- if `share` is 0 or less, or at least the number of the other consumers: all queues, each as id -1
  ("any queue of this broker");
- otherwise, if there are fewer queues than consumers: exactly one queue;
- otherwise its own queues and those of the next `share` consumers.
"""

from collections.abc import Sequence

from lb_core import errors, strategies
from lb_core.model import Queue
from lb_core.strategies import common

ANY_QUEUE = -1
"""The broker's queue id for "whichever queue has a message"."""
SHARE_ALL = -1
"""RocketMQ's default: every consumer reads every queue."""
MOST_ENTRIES = 2_000_000
"""Maximum number of entries in one answer, to limit the memory."""

_NOT_BLANK_IN_JAVA = "\x85\xa0\u2007\u202f"
"""Characters that are white space in Python, but not in the broker's check, which is in Java."""


def allocate(
    queues: Sequence[Queue],
    consumers: Sequence[str],
    share: int = SHARE_ALL,
    inner: str = "AVG",
    config: common.Config | None = None,
) -> common.Assignment:
    """
    Return the broker's answer to each consumer, before the broker drops repeated entries.

    `inner` names the strategy that assigns each consumer its own queues. Two consumers may get the
    same list object: do not change it.
    """
    dealer = strategies.find_dealer(inner)
    settings = config or {}
    dealer.check(settings)
    _check_share(share)
    if share <= 0 or share >= len(consumers) - 1:
        return dict.fromkeys(consumers, _share_all(queues))
    if len(queues) < len(consumers):
        return _deal_one_each(queues, consumers)
    own = dealer.deal(queues, consumers, settings)
    if sum(map(len, own.values())) * (share + 1) > MOST_ENTRIES:
        raise errors.BadRequestError(
            f"popShareQueueNum {share} with {len(queues)} queues makes an answer of more than "
            f"{MOST_ENTRIES} entries"
        )
    return _join_next(own, consumers, share)


def _share_all(queues: Sequence[Queue]) -> list[Queue]:
    """Make one entry for each queue, as RocketMQ does, although entries of one broker are equal."""
    return [Queue(queue.topic, queue.broker, ANY_QUEUE, queue.zone) for queue in queues]


def _deal_one_each(queues: Sequence[Queue], consumers: Sequence[str]) -> common.Assignment:
    """Give consumer i the queue i mod q, of q queues. Several consumers may read the same queue."""
    if any(_is_blank(consumer) for consumer in consumers):
        raise errors.IllegalArgumentException("currentCID is empty")
    if not queues:
        raise errors.IllegalArgumentException("mqAll is null or mqAll empty")
    return {
        consumer: [queues[position % len(queues)]]
        for consumer, position in common.find_first_positions(consumers).items()
    }


def _join_next(own: common.Assignment, consumers: Sequence[str], share: int) -> common.Assignment:
    """Add the queues of the next `share` consumers on the circle to each consumer's own queues."""
    circle = [*consumers, *consumers[:share]]
    return {
        consumer: [queue for other in circle[start : start + share + 1] for queue in own[other]]
        for consumer, start in common.find_first_positions(consumers).items()
    }


def _is_blank(text: str) -> bool:
    return all(one.isspace() and one not in _NOT_BLANK_IN_JAVA for one in text)


def _check_share(share: object) -> None:
    if not isinstance(share, int) or isinstance(share, bool):
        raise errors.BadRequestError("popShareQueueNum must be a whole number")
