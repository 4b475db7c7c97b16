"""Pull many queues concurrently, and iterate over the batches in one thread."""

from collections import deque
from collections.abc import Iterable, Iterator

from mq_client.blocking.engine import Engine, RunningFlow
from mq_client.directory import Directory
from mq_client.operations import pulling
from mq_client.pulling import READER_BYTES, Batch, Position, share


class QueueReader:
    """
    An iterator over batches that keeps one pull in flight for each queue.

    Before a batch is returned, the next pull of its queue is sent, so broker and caller work at the
    same time. At most one batch per queue waits for the caller. All waiting batches together have
    at most about `budget` bytes: the more queues, the smaller the batches. Batches of one queue are
    in order; batches of different queues come in any order.

    A position advances when its batch is returned, so a caller that stops can continue later with
    the same positions. If a pull fails, the iteration raises its error; iterating again repeats the
    pull. A reader belongs to one thread.
    """

    def __init__(
        self,
        engine: Engine,
        directory: Directory,
        group: str,
        positions: Iterable[Position],
        budget: int = READER_BYTES,
    ) -> None:
        """Send the first pulls."""
        self._engine = engine
        self._directory = directory
        self._group = group
        self._positions = list(positions)
        self._budget = budget
        self._pulled: dict[int, Position] = {}
        self._arrived: deque[tuple[int, Position, RunningFlow[Batch | None]]] = deque()
        self._pull_all()

    def __iter__(self) -> Iterator[Batch]:
        """Yield all batches, until every queue is at its `stop`."""
        while not all(position.is_done for position in self._positions):
            yield from self.poll(float("inf"))

    def poll(self, seconds: float) -> Iterator[Batch]:
        """Yield the batches that have arrived, or wait up to `seconds` for the first one."""
        self._pull_all()
        if self._pulled and self._engine.wait(lambda: bool(self._arrived), seconds):
            while self._arrived:
                number, ahead, task = self._arrived.popleft()
                if self._pulled.get(number) is not ahead:
                    continue  # this batch was delivered before
                del self._pulled[number]
                batch = task.get_result()
                if batch is not None:
                    self._pull(number, ahead.copy_ahead())
                self._positions[number].catch_up(ahead)
                if batch is not None:
                    yield batch

    def _pull_all(self) -> None:
        """Pull the queues that have no pull in flight."""
        self._share = share(self._budget, sum(not each.is_done for each in self._positions))
        for number, position in enumerate(self._positions):
            if number not in self._pulled:
                self._pull(number, position.copy_ahead())

    def _pull(self, number: int, ahead: Position) -> None:
        if not ahead.is_done:
            self._pulled[number] = ahead
            flow = pulling.pull_batch(self._directory, self._group, ahead, self._share)
            self._engine.start(flow, lambda task: self._arrived.append((number, ahead, task)))
