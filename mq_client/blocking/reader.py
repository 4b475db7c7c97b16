"""Pull sequences of many queues, side by side, for one thread that iterates over the batches."""

from collections import deque
from collections.abc import Iterable, Iterator

from mq_client.blocking.engine import Engine, RunningFlow
from mq_client.directory import Directory
from mq_client.operations import pulling
from mq_client.pulling import READER_BYTES, Batch, Position, share


class QueueReader:
    """
    Keeps one pull under way for each queue, and gives batches as they arrive.

    The next pull of a queue is sent before its batch is given, so the broker works while the caller
    does. Thus at most one batch a queue waits, however slow the caller is, and all of them together
    hold `budget` bytes, about: the more queues there are, the smaller are their batches. The order
    within a queue is the broker's; between queues there is none.

    A position moves when its batch is given, not before: whoever leaves off may read on with the
    same positions. A queue whose pull failed raises the error; iterating again pulls it again. A
    reader belongs to one thread.
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
        """Give all batches; it ends when every queue is at its `stop`."""
        while not all(position.is_done for position in self._positions):
            yield from self.within(float("inf"))

    def within(self, seconds: float) -> Iterator[Batch]:
        """Give the batches that are there, or the first that comes in time; maybe none."""
        self._pull_all()
        if self._pulled and self._engine.wait(lambda: bool(self._arrived), seconds):
            while self._arrived:
                number, ahead, task = self._arrived.popleft()
                if self._pulled.get(number) is not ahead:
                    continue  # it has been told before
                del self._pulled[number]
                batch = task.result()
                if batch is not None:
                    self._pull(number, ahead.ahead())
                self._positions[number].catch_up(ahead)
                if batch is not None:
                    yield batch

    def _pull_all(self) -> None:
        """Pull the queues for which no pull is under way."""
        self._share = share(self._budget, sum(not each.is_done for each in self._positions))
        for number, position in enumerate(self._positions):
            if number not in self._pulled:
                self._pull(number, position.ahead())

    def _pull(self, number: int, ahead: Position) -> None:
        if not ahead.is_done:
            self._pulled[number] = ahead
            flow = pulling.next_batch(self._directory, self._group, ahead, self._share)
            self._engine.start(flow, lambda task: self._arrived.append((number, ahead, task)))
