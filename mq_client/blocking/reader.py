"""Pull sequences of many queues, side by side, for one thread that iterates over the batches."""

from collections import deque
from collections.abc import Iterable, Iterator

from mq_client.blocking.engine import Engine, Task
from mq_client.directory import Directory
from mq_client.operations import pulling
from mq_client.pulling import Batch, Position


class Reader:
    """
    Keeps one pull under way for each queue, and gives batches as they arrive.

    The next pull of a queue is sent before its batch is given, so the broker works while the caller
    does. Thus at most one batch a queue waits, however slow the caller is. The order within a queue
    is the broker's; between queues there is none.
    """

    def __init__(
        self, engine: Engine, directory: Directory, group: str, positions: Iterable[Position]
    ) -> None:
        """Send the first pulls."""
        self._engine = engine
        self._directory = directory
        self._group = group
        self._under_way = 0
        self._arrived: deque[tuple[Position, Task[Batch | None]]] = deque()
        for position in positions:
            self._start(position)

    def __iter__(self) -> Iterator[Batch]:
        """Give all batches; it ends when every queue is at its `stop`."""
        while self._under_way:
            yield from self.within(float("inf"))

    def within(self, seconds: float) -> Iterator[Batch]:
        """Give the batches that are there, or the first that comes in time; maybe none."""
        if self._under_way and self._engine.wait(lambda: bool(self._arrived), seconds):
            while self._arrived:
                position, task = self._arrived.popleft()
                self._under_way -= 1
                batch = task.result()
                if batch is not None:
                    self._start(position)
                    yield batch

    def _start(self, position: Position) -> None:
        flow = pulling.next_batch(self._directory, self._group, position)
        self._under_way += 1
        self._engine.start(flow, lambda task: self._arrived.append((position, task)))
