"""How often a member commits what it has handled."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommitPace:
    """
    How often the offset of a queue is committed while the member keeps the queue.

    If the member is killed or cut off, messages that it handled after the last commit are delivered
    again.
    """

    seconds: float = 0.2
    most: int | None = 100
    """
    Maximum number of commits in a second, over all queues.

    So with more than 20 queues, more time passes between the commits of a queue. None: all queues
    are committed together, so the number of queues does not matter.
    """
    calls_during_commit: bool = False
    """
    Whether the handler of a queue is called while a commit of the queue is in progress.

    If not, a member that cannot commit repeats, for each queue, at most what it handled between two
    commits, and one call. A flow sets it, because its commits write rows, which takes long.
    """
    is_at_once: bool = False
    """Whether each call of the handler is committed as soon as it has ended, and never again."""

    def find_seconds(self, queues: int) -> float:
        """Find the time between two commits of a queue."""
        return self.seconds if self.most is None else max(self.seconds, queues / self.most)


EACH_QUEUE = CommitPace()
IN_ORDER = CommitPace(is_at_once=True)
"""For queues of which a broker gives nothing more until all messages are acknowledged."""
