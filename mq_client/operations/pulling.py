"""Pull messages, through failures: see `mq_client.pulling` for what is promised."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from mq_client import errors, filters, flows
from mq_client.answers import Answer, Meaning
from mq_client.commands.consuming import CheckFilter
from mq_client.directory import LATE_POLL, Directory
from mq_client.flows import Ask, AskAll, Flow, Pause
from mq_client.operations import routing
from mq_client.operations.routing import BrokerChoice
from mq_client.pulling import (
    ENOUGH_BYTES,
    LEAST_BYTES,
    MOST_AT_ONCE,
    MOST_BYTES,
    MOST_MESSAGES,
    POLL_MS,
    Batch,
    BeyondEndError,
    Position,
)  # fmt: skip
from mq_client.values import MASTER_ID, Pulled

MAY_PASS = (errors.UnavailableError, errors.BusyError, errors.TopicUnknownError)
"""Errors after which the same pull may work: a broker that restarts is unknown for a while."""


def next_batch(
    directory: Directory, group: str, position: Position, enough: int | None = None
) -> Flow[Batch | None]:
    """
    Pull the next messages of a queue, however long that takes; None at the sequence's end.

    Answers are joined until they have `enough` bytes, by default `ENOUGH_BYTES`. A broker gives one
    message however large it is.

    Failures are tried again for `patience` seconds; then the last one is raised, and the position
    stands where it was, as it does when the flow is given up half-way. A position with a `stop`
    that begins behind the queue's end is a `BeyondEndError` at once.
    """
    enough = ENOUGH_BYTES if enough is None else enough
    ahead = position.ahead()
    batch = None
    while batch is None and not ahead.is_done:
        answer = yield from _pull_patiently(directory, group, ahead, enough)
        batch = ahead.take(answer)
        if batch is not None:
            end = answer.pulled.max_offset
            batch = yield from _with_more(directory, group, ahead, batch, end, enough)
    position.catch_up(ahead)
    return batch


def _pull_patiently(
    directory: Directory, group: str, position: Position, enough: int
) -> Flow[Answer]:
    """
    Pull until an answer says how to go on.

    A master must say twice that messages are gone: a slave deletes by its own clock, and a file
    that cannot be read once may be read again. It must say twice that the queue ends before the
    position, too: a message that was just sent is readable a moment later.
    """
    failing_since: float | None = None
    told: set[Meaning] = set()
    pauses = directory.times.pauses()
    while True:
        asked_at = directory.now()
        try:
            answer, is_masters = yield from _pull(
                directory, group, position, enough, failing_since is None
            )
            _refuse(position, answer, is_masters)
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
            continue
        failing_since = None
        if answer.meaning is Meaning.NOTHING_YET:
            position.take(answer)
            if directory.now() - asked_at < directory.times.first_pause:  # it was not held
                yield Pause(next(pauses))
        elif answer.meaning in _TOLD_TWICE and answer.meaning not in told:
            told.add(answer.meaning)
            yield Pause(directory.times.first_pause)
        elif answer.meaning is Meaning.BEYOND_END:
            raise BeyondEndError(position, answer.pulled.max_offset)
        else:
            return answer


_TOLD_TWICE = (Meaning.GONE, Meaning.BEYOND_END)
_REASONS = {
    Meaning.BEYOND_END: "this broker's queue ends before it, at {max_offset}",
    Meaning.HELD: "the broker gave neither messages nor a way on ({remark})",
    Meaning.RESET: "somebody set the group's offset on the broker; it is asked again",
}


def _refuse(position: Position, answer: Answer, is_masters: bool) -> None:
    """Raise an error for an answer that may change; the next try asks the master."""
    pulled = answer.pulled
    reason = _REASONS.get(answer.meaning)
    if answer.meaning is Meaning.GONE and not is_masters:
        reason = "a slave says it is gone, and only the master can know"
    if answer.meaning is Meaning.NOTHING_YET and position.stop is not None and not is_masters:
        reason = "a slave ends there, and only the master can tell whether there is more"
    if is_masters and _is_beyond_end(position, answer):
        reason = None
    if reason is not None:
        position.broker_id = MASTER_ID
        told = reason.format(max_offset=pulled.max_offset, remark=pulled.remark)
        raise errors.UnavailableError(f"{position.queue} at offset {position.next}: {told}")


def _is_beyond_end(position: Position, answer: Answer) -> bool:
    """
    Tell whether a bounded position begins behind the end that the answer itself gives.

    A reader without a `stop` waits for messages to come.
    """
    is_beyond = answer.meaning is Meaning.BEYOND_END and answer.pulled.max_offset < position.next
    return is_beyond and position.stop is not None


def _with_more(
    directory: Directory, group: str, position: Position, batch: Batch, end: int, enough: int
) -> Flow[Batch]:
    """
    Pull on without waiting, as long as there is more and the batch is small.

    Answers tend to bring equally many messages, so several are asked for at once, each where the
    one before should end, but no more than there is room for. What does not follow on is thrown
    away, and asked for again one by one.
    """
    bodies = [batch.body]
    start = position.ahead()
    first: Answer | None = None
    size, step, at_once = len(batch.body), batch.stop - batch.first, 1
    full = position.cut(batch.first + MOST_MESSAGES)
    while size < enough and position.next < min(end, full):
        before = position.next
        room_for = max(1, (enough - size) * len(bodies) // max(1, size))
        places = range(before, min(end, full), step)[: min(at_once, room_for)]
        at_once = min(2 * at_once, MOST_AT_ONCE)
        answers = yield from _pull_all(directory, group, position, places, enough)
        for place, pulled in zip(places, answers, strict=False):  # answers end where one failed
            if place != position.next:
                at_once = 1
                break
            answer = position.read(pulled)
            if answer.meaning not in _MOVES_ON:
                break
            first = first or answer
            more = position.take(answer)
            if more is not None:
                bodies.append(more.body)
                size += len(more.body)
            step, end = position.next - place or step, pulled.max_offset
        if position.next == before:
            break
    if first is None:
        return batch
    try:
        seen = yield from _see_what_is_hidden(directory, group, start, first)
    except errors.MqError:
        seen = None  # as in `_pull_all`
    if seen is not first:
        position.catch_up(start)
        return batch
    body = b"".join(bodies) if len(bodies) > 1 else batch.body
    return replace(batch, stop=position.next, body=body)


def _pull_all(
    directory: Directory, group: str, position: Position, places: Sequence[int], enough: int
) -> Flow[list[Pulled]]:
    """Pull at several places at once; the answers up to the first that is a failure or a gap."""
    try:
        address = yield from _address(directory, group, position)
    except errors.MqError:
        return []  # what is there is given first; the next call meets the error again, or not
    most = _most_bytes(enough)
    requests = [replace(position, next=place).request(group, 0, most) for place in places]
    asks = tuple(Ask(address, request, directory.times.answer) for request in requests)
    pulled = yield AskAll(asks)
    return list(itertools.takewhile(lambda answer: isinstance(answer, Pulled), pulled))


def _pull(
    directory: Directory, group: str, position: Position, enough: int, known_route: bool
) -> Flow[tuple[Answer, bool]]:
    """Pull once; the answer, and whether it is the master's where that makes a difference."""
    address = yield from _address(directory, group, position, known_route)
    timeout = directory.times.answer + POLL_MS / 1000 + LATE_POLL
    request = position.request(group, POLL_MS, _most_bytes(enough))
    pulled = yield from flows.ask(address, request, timeout)
    answer = position.read(pulled)
    answer = yield from _see_what_is_hidden(directory, group, position, answer)
    is_end = answer.meaning in (Meaning.NOTHING_YET, Meaning.BEYOND_END)
    if answer.meaning is not Meaning.GONE and not (is_end and position.stop is not None):
        return answer, False  # whoever gave it, it means the same
    return answer, (yield from routing.is_master(directory, position.queue, address))


_MOVES_ON = (Meaning.MESSAGES, Meaning.PASSED_OVER)
_ONE_MESSAGE = 1
"""In bytes: a broker gives one message at least. It looks for it as far as for many."""


def _see_what_is_hidden(
    directory: Directory, group: str, position: Position, answer: Answer
) -> Flow[Answer]:
    """
    Give the answer if no message that it is about can be missing; otherwise what there is instead.

    A filter hides what a broker has just deleted. So the position is pulled once more without it.
    Brokers delete from a queue's beginning on: whoever finds the first message that an answer is
    about knows that none behind it is missing.
    """
    if position.wanted.is_everything or answer.meaning not in _MOVES_ON:
        return answer
    plain = replace(position, wanted=filters.EVERYTHING)
    request = replace(plain.request(group, poll_ms=0), most_bytes=_ONE_MESSAGE)
    address = yield from _address(directory, group, position)
    seen = plain.read((yield from flows.ask(address, request, directory.times.answer)))
    return answer if seen.meaning is Meaning.MESSAGES else seen


def _most_bytes(enough: int) -> int:
    return MOST_BYTES if enough >= ENOUGH_BYTES else max(LEAST_BYTES, enough)


def _address(
    directory: Directory, group: str, position: Position, known_route: bool = True
) -> Flow[str]:
    """Look up the broker to pull from; one that does not understand the filter is an error."""
    place = BrokerChoice.of(position.queue, position.broker_id)
    address = yield from routing.address_of(directory, place, None if known_route else 0)
    wanted = position.wanted
    if wanted.is_sql and (address, wanted) not in directory.filters_understood:
        check = CheckFilter(group, position.queue.topic, wanted)
        yield from flows.ask(address, check, directory.times.answer)
        directory.filters_understood.add((address, wanted))
    return address
