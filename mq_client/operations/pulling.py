"""Pull messages, with retries. `mq_client.pulling` describes the guarantees."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from mq_client import errors, filters, flows
from mq_client.answers import Answer, Meaning
from mq_client.commands.pulling import CheckFilter
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

PULL_MAY_PASS = (*errors.MAY_PASS, errors.TopicUnknownError)
"""The same for pulls: a restarting broker does not know its topics at first."""


def pull_batch(
    directory: Directory,
    group: str,
    position: Position,
    enough: int | None = None,
    passing_seconds: float | None = None,
) -> Flow[Batch | None]:
    """
    Pull the next messages of a queue. If there are none yet, wait for them.

    Returns None if the position has reached `stop`. Answers are joined until they have `enough`
    bytes, by default `ENOUGH_BYTES`. A broker returns at least one message, however large it is.

    With `passing_seconds`, a batch without messages is returned if the filter rejects all messages
    for this time, or all messages up to the queue's end. The batch's offsets show how far the
    position has advanced.

    Failed pulls are retried for `Times.patience` seconds. Then the last error is raised. If an
    error is raised or the flow is abandoned, the position does not change. If a position has a
    `stop` and begins beyond the queue's end, a `BeyondEndError` is raised without retries.
    """
    enough = ENOUGH_BYTES if enough is None else enough
    ahead = position.copy_ahead()
    begun_at = directory.now()
    batch = None
    while batch is None and not ahead.is_done:
        answer = yield from _pull_patiently(directory, group, ahead, enough)
        batch = ahead.take(answer)
        if batch is not None:
            end = answer.pulled.max_offset
            batch = yield from _pull_more(directory, group, ahead, batch, end, enough)
        elif passing_seconds is not None and (
            ahead.next >= answer.pulled.max_offset or directory.now() - begun_at >= passing_seconds
        ):
            batch = Batch(position.queue, position.next, ahead.next, b"", position.wanted)
    position.catch_up(ahead)
    return batch


def _pull_patiently(
    directory: Directory, group: str, position: Position, enough: int
) -> Flow[Answer]:
    """
    Pull until an answer has messages or moves the position.

    Messages count as gone only if a master has answered twice that they are gone. A slave's answer
    is not enough, because slaves delete files at other times. One answer is not enough, because a
    file that could not be read may be readable the second time. A master must also answer twice
    that the queue ends before the position, because a message becomes readable only a moment after
    it was sent.
    """
    failing_since: float | None = None
    told: set[Meaning] = set()
    pauses = directory.times.make_pauses()
    while True:
        asked_at = directory.now()
        try:
            answer, is_masters = yield from _pull(
                directory, group, position, enough, failing_since is None
            )
            _refuse(position, answer, is_masters)
        except PULL_MAY_PASS as error:
            now = directory.now()
            failing_since = now if failing_since is None else failing_since
            if now - failing_since >= directory.times.patience:
                error.preface(
                    f"{position.queue} from offset {position.next}: all retries failed for "
                    f"{now - failing_since:.0f} s (Times.patience); check that the queue's broker "
                    "runs, then pull again from this offset; the last error was"
                )
                raise
            yield Pause(next(pauses))
            continue
        failing_since = None
        if answer.meaning is Meaning.NOTHING_YET:
            position.take(answer)
            if (
                directory.now() - asked_at < directory.times.first_pause
            ):  # the broker did not wait for messages
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
    Meaning.BEYOND_END: "on this broker, the queue ends before this offset, at {max_offset}",
    Meaning.HELD: "the broker returned neither messages nor a next offset ({remark})",
    Meaning.RESET: "the group's offset was set on the broker; the pull is repeated",
}


def _refuse(position: Position, answer: Answer, is_masters: bool) -> None:
    """Raise an error if a later answer may be different. The retry then asks the master."""
    pulled = answer.pulled
    reason = _REASONS.get(answer.meaning)
    if answer.meaning is Meaning.GONE and not is_masters:
        reason = "a slave answered that the message is gone, but only the master can know"
    if answer.meaning is Meaning.NOTHING_YET and position.stop is not None and not is_masters:
        reason = "the queue ends here on a slave, and only the master knows if there is more"
    if is_masters and _is_beyond_end(position, answer):
        reason = None
    if reason is not None:
        position.broker_id = MASTER_ID
        told = reason.format(max_offset=pulled.max_offset, remark=pulled.remark)
        raise errors.UnavailableError(f"{position.queue} at offset {position.next}: {told}")


def _is_beyond_end(position: Position, answer: Answer) -> bool:
    """
    Whether, by this answer, the queue ends before the position, and the reader must not wait.

    A reader without a `stop` waits for new messages, unless it has read messages up to its
    position.
    """
    is_beyond = answer.meaning is Meaning.BEYOND_END and answer.pulled.max_offset < position.next
    return is_beyond and position.has_to_exist


def _pull_more(
    directory: Directory, group: str, position: Position, batch: Batch, end: int, enough: int
) -> Flow[Batch]:
    """
    Pull more messages without waiting, while the queue has more and the batch is small.

    Answers tend to have equal numbers of messages. So several pulls are sent at once, as long as
    the batch has room. Each pull begins where the answer to the previous pull should end. If an
    answer does not begin where the previous answer ended, this answer and all later ones are
    dropped. Their offsets are then pulled again, one pull after the other.
    """
    bodies = [batch.body]
    start = position.copy_ahead()
    first: Answer | None = None
    size, step, at_once = len(batch.body), batch.stop - batch.first, 1
    full = position.cut(batch.first + MOST_MESSAGES)
    while size < enough and position.next < min(end, full):
        before = position.next
        room_for = max(1, (enough - size) * len(bodies) // max(1, size))
        places = range(before, min(end, full), step)[: min(at_once, room_for)]
        at_once = min(2 * at_once, MOST_AT_ONCE)
        answers = yield from _pull_all(directory, group, position, places, enough)
        for place, pulled in zip(places, answers, strict=False):  # answers end at the first failure
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
        seen = yield from _look_behind_filter(directory, group, start, first)
    except errors.MqError:
        seen = None  # return the batch first, as in `_pull_all`
    if seen is not first:
        position.catch_up(start)
        return batch
    body = b"".join(bodies) if len(bodies) > 1 else batch.body
    return replace(batch, stop=position.next, body=body)


def _pull_all(
    directory: Directory, group: str, position: Position, places: Sequence[int], enough: int
) -> Flow[list[Pulled]]:
    """Pull at several offsets at once. Return the answers up to the first failure."""
    try:
        address = yield from _find_address(directory, group, position)
    except errors.MqError:
        return []  # the batch is returned first; if the error persists, the next call raises it
    most = _limit_bytes(enough)
    requests = [replace(position, next=place).make_request(group, 0, most) for place in places]
    asks = tuple(Ask(address, request, directory.times.answer) for request in requests)
    pulled = yield AskAll(asks)
    return list(itertools.takewhile(lambda answer: isinstance(answer, Pulled), pulled))


def _pull(
    directory: Directory, group: str, position: Position, enough: int, known_route: bool
) -> Flow[tuple[Answer, bool]]:
    """
    Pull once. Return the answer, and whether the master sent it.

    The second value is also False if it does not matter which broker has sent the answer.
    """
    address = yield from _find_address(directory, group, position, known_route)
    timeout = directory.times.answer + POLL_MS / 1000 + LATE_POLL
    request = position.make_request(group, POLL_MS, _limit_bytes(enough))
    pulled = yield from flows.ask(address, request, timeout)
    answer = position.read(pulled)
    answer = yield from _look_behind_filter(directory, group, position, answer)
    matters = {
        Meaning.GONE: True,
        Meaning.NOTHING_YET: position.stop is not None,
        Meaning.BEYOND_END: position.has_to_exist,
    }
    if not matters.get(answer.meaning, False):
        return answer, False  # this answer means the same from a slave
    return answer, (yield from routing.is_master(directory, position.queue, address))


_MOVES_ON = (Meaning.MESSAGES, Meaning.PASSED_OVER)
_ONE_MESSAGE = 1
"""A limit in bytes that makes a broker return exactly one message."""


def _look_behind_filter(
    directory: Directory, group: str, position: Position, answer: Answer
) -> Flow[Answer]:
    """
    Return the answer if it misses no message, otherwise the answer to a pull without the filter.

    With a filter, an answer does not show whether the broker has just deleted messages. So the same
    offset is pulled once more without the filter. Brokers delete from the beginning of a queue: if
    the first message of the answer's range exists, all later ones exist too.
    """
    if position.wanted.is_everything or answer.meaning not in _MOVES_ON:
        return answer
    plain = replace(position, wanted=filters.EVERYTHING)
    request = replace(plain.make_request(group, poll_ms=0), most_bytes=_ONE_MESSAGE)
    address = yield from _find_address(directory, group, position)
    seen = plain.read((yield from flows.ask(address, request, directory.times.answer)))
    return answer if seen.meaning is Meaning.MESSAGES else seen


def _limit_bytes(enough: int) -> int:
    return MOST_BYTES if enough >= ENOUGH_BYTES else max(LEAST_BYTES, enough)


def _find_address(
    directory: Directory, group: str, position: Position, known_route: bool = True
) -> Flow[str]:
    """Find the broker to pull from. If the broker rejects the filter, raise its error."""
    place = BrokerChoice.from_queue(position.queue, position.broker_id)
    address = yield from routing.find_address(directory, place, None if known_route else 0)
    wanted = position.wanted
    if wanted.is_sql and (address, wanted) not in directory.filters_understood:
        check = CheckFilter(group, position.queue.topic, wanted)
        yield from flows.ask(address, check, directory.times.answer)
        directory.filters_understood.add((address, wanted))
    return address
