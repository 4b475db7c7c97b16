"""
How long a session lasts, by the member's own clock.

The coordinator counts from when it received a request. The member counts from when it sent that
request, which is earlier, and lets its session end a little sooner. So the member stops before the
coordinator gives the member's queues away, provided that the two clocks drift apart by less than
the margin.
"""

from dataclasses import dataclass

MARGIN = 0.05
"""Share of the session time. Two clocks that drift by 1 % each stay well within this margin."""


@dataclass(slots=True)
class SessionLease:
    """The end of a session as its member sees it."""

    until: float | None = None
    """The end of the session. None before the first answer: no queue may be read yet."""

    def renew(self, sent_at: float, seconds: float) -> None:
        """Extend the session, counted from when the answered request was sent. Never shorten it."""
        end = sent_at + seconds * (1 - MARGIN)
        self.until = end if self.until is None else max(self.until, end)

    def is_over(self, now: float) -> bool:
        """Whether the session is over, so that the member must no longer hold any queue."""
        return self.until is not None and now >= self.until
