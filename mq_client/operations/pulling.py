"""Pull messages, through failures: see `mq_client.pulling` for what is promised."""

from dataclasses import replace

from mq_client import errors, flows
from mq_client.commands.consuming import CheckFilter
from mq_client.directory import LATE_POLL, Directory
from mq_client.flows import Flow, Pause
from mq_client.operations import routing
from mq_client.operations.routing import Place
from mq_client.pulling import ENOUGH_BYTES, POLL_MS, Batch, Position
from mq_client.values import Pulled

MAY_PASS = (errors.UnavailableError, errors.BusyError, errors.TopicUnknownError)
"""Errors after which the same pull may work: a broker that restarts is unknown for a while."""


def next_batch(directory: Directory, group: str, position: Position) -> Flow[Batch | None]:
    """
    Pull the next messages of a queue, however long that takes; None at the sequence's end.

    Failures are tried again for `patience` seconds; then the last one is raised, and the position
    stands where it was, as it does when the flow is given up half-way.
    """
    ahead = position.ahead()
    batch = None
    while batch is None and not ahead.is_done:
        pulled = yield from _pull_patiently(directory, group, ahead)
        batch = ahead.take(pulled)
        if batch is not None:
            batch = yield from _with_more(directory, group, ahead, batch, pulled.max_offset)
    position.catch_up(ahead)
    return batch


def _pull_patiently(directory: Directory, group: str, position: Position) -> Flow[Pulled]:
    failing_since: float | None = None
    pauses = directory.times.pauses()
    while True:
        try:
            pulled = yield from _pull(directory, group, position, POLL_MS, failing_since is None)
            if not position.is_ahead(pulled):
                return pulled
            raise errors.UnavailableError(
                f"{position.queue}: this broker ends at {pulled.next_offset}, "
                f"before {position.next}"
            )
        except MAY_PASS:
            now = directory.now()
            failing_since = now if failing_since is None else failing_since
            if now - failing_since >= directory.times.patience:
                raise
            yield Pause(next(pauses))


def _with_more(
    directory: Directory, group: str, position: Position, batch: Batch, end: int
) -> Flow[Batch]:
    """Pull on without waiting, as long as there is more and the batch is small."""
    bodies = [batch.body]
    size = len(batch.body)
    while size < ENOUGH_BYTES and position.next < end and not position.is_done:
        before = position.next
        try:
            pulled = yield from _pull(directory, group, position, poll_ms=0)
            more = position.take(pulled)
        except errors.MqError:
            break  # what is there is given first; the next call meets the error again, or not
        if position.next == before:
            break
        if more is not None:
            bodies.append(more.body)
            size += len(more.body)
        end = pulled.max_offset
    body = b"".join(bodies) if bodies[1:] else batch.body
    return replace(batch, stop=position.next, body=body)


def _pull(
    directory: Directory, group: str, position: Position, poll_ms: int, known_route: bool = True
) -> Flow[Pulled]:
    place = Place.of(position.queue, position.broker_id)
    address = yield from routing.address_of(directory, place, None if known_route else 0)
    wanted = position.wanted
    if wanted.is_sql and (address, wanted) not in directory.filters_understood:
        check = CheckFilter(group, position.queue.topic, wanted)
        yield from flows.ask(address, check, directory.times.answer)
        directory.filters_understood.add((address, wanted))
    timeout = directory.times.answer + poll_ms / 1000 + LATE_POLL
    return (yield from flows.ask(address, position.request(group, poll_ms), timeout))
