"""
Decides which commits count, without I/O.

Only the driver commits, so one place decides for all tasks. A commit counts if

- its session is live, and holds each queue that the commit names;
- each of its ranges begins where the last commit of that queue ended.

By the second rule, the committed ranges of a queue follow each other without gaps and overlaps. So
nothing is committed twice, and nothing is left out. By the first rule, a task that the driver has
given up cannot commit, even if it wakes up later. Files become visible only after their commit is
in the journal, so all visible files belong to committed ranges. `sinks/__init__.py` describes the
other sinks.
"""

from collections.abc import Collection, Mapping

from coordinator.sessions import Session
from follower.pace import CommitPace
from mq_client.values import MessageQueue
from spark_jobs.pipeline.flow.wire import TaskCommit


def make_pace(seconds: float) -> CommitPace:
    """Decide when a task commits: all queues at once, while its function goes on."""
    return CommitPace(seconds, most=None, calls_during_commit=True)


class Commits:
    """The ends of a job's queues, including commits that are not in the journal yet."""

    def __init__(self, ends: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets."""
        self.ends = dict(ends)
        """Where each queue is read next."""
        self._last: dict[str, int] = {}
        """By session: the number of its last commit that counted."""

    def begin(self, begins: Mapping[MessageQueue, int]) -> None:
        """Add new queues, with the offsets where they begin. Known queues keep their ends."""
        self.ends = dict(begins) | self.ends

    def is_repeated(self, asked: TaskCommit) -> bool:
        """Whether this commit has counted already, but the task did not get the answer."""
        return self._last.get(asked.session, 0) >= asked.number

    def accept(self, asked: TaskCommit, session: Session[MessageQueue] | None) -> bool:
        """Accept a commit and advance the ends, or refuse it. `session` is the live one, if any."""
        if session is None or session.id != asked.session:
            return False
        held = session.grants | session.leaving.keys()
        if not all(
            part.queue in held and self.ends.get(part.queue) == part.start for part in asked.ranges
        ):
            return False
        self.ends |= {part.queue: part.stop for part in asked.ranges}
        self._last[asked.session] = asked.number
        return True

    def forget_others(self, live: Collection[str]) -> None:
        """Forget the sessions that are not live. Their commits are refused from now on."""
        self._last = {session: last for session, last in self._last.items() if session in live}
