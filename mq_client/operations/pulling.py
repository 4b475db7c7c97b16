"""Pull messages, through failures: see `mq_client.pulling` for what is promised."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from mq_client import errors, flows
from mq_client.commands.consuming import CheckFilter
from mq_client.directory import LATE_POLL, Directory
from mq_client.flows import Ask, AskAll, Flow, Pause
from mq_client.operations import routing
from mq_client.operations.routing import Place
from mq_client.pulling import ENOUGH_BYTES, MOST_AT_ONCE, MOST_MESSAGES, POLL_MS, Batch, Position
from mq_client.values import Pulled, PullStatus

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
            pulled = yield from _pull(directory, group, position, failing_since is None)
            if not position.is_ahead(pulled):
                return pulled
            raise errors.UnavailableError(
                f"{position.queue}: this broker ends at {pulled.next_offset}, "
                f"before {position.next}"
            )
        except MAY_PASS as error:
            now = directory.now()
            failing_since = now if failing_since is None else failing_since
            if now - failing_since >= directory.times.patience:
                error.preface(
                    f"{position.queue} from offset {position.next}: tried in vain for "
                    f"{now - failing_since:.0f} s (Times.patience); see that its broker runs, "
                    "then pull on from there; the last failure"
                )
                raise
            yield Pause(next(pauses))


def _with_more(
    directory: Directory, group: str, position: Position, batch: Batch, end: int
) -> Flow[Batch]:
    """
    Pull on without waiting, as long as there is more and the batch is small.

    Answers tend to bring equally many messages, so several are asked for at once, each where the
    one before should end. What does not follow on is thrown away, and asked for again one by one.
    """
    bodies = [batch.body]
    size, step, at_once = len(batch.body), batch.stop - batch.first, 1
    full = position.cut(batch.first + MOST_MESSAGES)
    while size < ENOUGH_BYTES and position.next < min(end, full):
        before = position.next
        places = range(before, min(end, full), step)[:at_once]
        at_once = min(2 * at_once, MOST_AT_ONCE)
        answers = yield from _pull_all(directory, group, position, places)
        for place, pulled in zip(places, answers, strict=False):  # answers end where one failed
            if place != position.next:
                at_once = 1
                break
            more = position.take(pulled)
            if more is not None:
                bodies.append(more.body)
                size += len(more.body)
            step, end = position.next - place or step, pulled.max_offset
        if position.next == before:
            break
    body = b"".join(bodies) if len(bodies) > 1 else batch.body
    return replace(batch, stop=position.next, body=body)


def _pull_all(
    directory: Directory, group: str, position: Position, places: Sequence[int]
) -> Flow[list[Pulled]]:
    """Pull at several places at once; the answers up to the first that is a failure or a gap."""
    try:
        address = yield from _address(directory, group, position)
    except errors.MqError:
        return []  # what is there is given first; the next call meets the error again, or not
    requests = [replace(position, next=place).request(group, poll_ms=0) for place in places]
    asks = tuple(Ask(address, request, directory.times.answer) for request in requests)
    answers = yield AskAll(asks)
    return list(itertools.takewhile(_is_plain, answers))


def _is_plain(answer: Pulled | errors.MqError) -> bool:
    return isinstance(answer, Pulled) and answer.status is not PullStatus.OFFSET_MOVED


def _pull(directory: Directory, group: str, position: Position, known_route: bool) -> Flow[Pulled]:
    address = yield from _address(directory, group, position, known_route)
    timeout = directory.times.answer + POLL_MS / 1000 + LATE_POLL
    return (yield from flows.ask(address, position.request(group, POLL_MS), timeout))


def _address(
    directory: Directory, group: str, position: Position, known_route: bool = True
) -> Flow[str]:
    """Look up the broker to pull from; one that does not understand the filter is an error."""
    place = Place.of(position.queue, position.broker_id)
    address = yield from routing.address_of(directory, place, None if known_route else 0)
    wanted = position.wanted
    if wanted.is_sql and (address, wanted) not in directory.filters_understood:
        check = CheckFilter(group, position.queue.topic, wanted)
        yield from flows.ask(address, check, directory.times.answer)
        directory.filters_understood.add((address, wanted))
    return address
