"""
Knows until when nobody else gets messages that a member has popped, without I/O.

The member renews this time when half of it has passed. If renewals fail until it is over, the
broker gives the messages to others too, so the handler must not begin with them any more.
"""

from dataclasses import dataclass

RENEW_SHARE = 0.5
"""The share of the invisible time after which it is renewed."""
RETRY_SHARE = 0.1
"""The share of the invisible time after which a renewal is tried again."""
LATEST_SHARE = 0.9
"""The share of the invisible time after which the handler does not begin with a message."""


@dataclass(slots=True)
class InvisibleTime:
    """The time for which nobody else gets some messages."""

    seconds: float
    until: float = 0.0
    """When others may get the messages, unless the time is renewed."""
    renew_at: float = 0.0

    def count_from(self, since: float) -> None:
        """Count the time from the pop of the messages, or from when a renewal was sent."""
        self.until = since + self.seconds
        self.renew_at = since + RENEW_SHARE * self.seconds

    def renew_again(self, now: float) -> None:
        """Let a renewal be due again soon, because the one that was sent may fail."""
        self.renew_at = now + RETRY_SHARE * self.seconds

    def is_late(self, now: float) -> bool:
        """Whether the handler must not begin with the messages: others may soon get them."""
        return now >= self.until - (1 - LATEST_SHARE) * self.seconds

    def is_over(self, now: float) -> bool:
        """Whether others may have got the messages."""
        return now >= self.until
