"""Pull messages, through failures: see `mq_client.pulling` for what is promised."""

from mq_client import errors, flows
from mq_client.directory import LATE_POLL, Directory
from mq_client.flows import Flow, Pause
from mq_client.operations import routing
from mq_client.operations.routing import Place
from mq_client.pulling import POLL_MS, Batch, Position
from mq_client.values import Pulled

MAY_PASS = (errors.UnavailableError, errors.BusyError, errors.TopicUnknownError)
"""Errors after which the same pull may work: a broker that restarts is unknown for a while."""


def next_batch(directory: Directory, group: str, position: Position) -> Flow[Batch | None]:
    """
    Pull the next messages of a queue, however long that takes; None at the sequence's end.

    Failures are tried again for `patience` seconds; then the last one is raised, and the position
    stands where it was.
    """
    failing_since: float | None = None
    pause = directory.times.first_pause
    while not position.is_done:
        try:
            pulled = yield from _pull(directory, group, position, failing_since is not None)
            if position.is_ahead(pulled):
                raise errors.UnavailableError(
                    f"{position.queue}: this broker ends at {pulled.next_offset}, "
                    f"before {position.next}"
                )
        except MAY_PASS:
            now = directory.now()
            failing_since = now if failing_since is None else failing_since
            if now - failing_since >= directory.times.patience:
                raise
            yield Pause(pause)
            pause = min(2 * pause, directory.times.longest_pause)
            continue
        failing_since, pause = None, directory.times.first_pause
        batch = position.take(pulled)
        if batch is not None:
            return batch
    return None


def _pull(directory: Directory, group: str, position: Position, anew: bool) -> Flow[Pulled]:
    place = Place(position.queue.topic, position.queue.broker, position.broker_id)
    address = yield from routing.address_of(directory, place, 0 if anew else None)
    timeout = directory.times.answer + POLL_MS / 1000 + LATE_POLL
    return (yield from flows.ask(address, position.request(group), timeout))
