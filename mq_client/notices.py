"""What brokers say unasked. All else that they ask is answered with "unknown" by the connection."""

import logging
from collections.abc import Callable

from mq_client.frames import Frame

log = logging.getLogger("mq_client")

NOTIFY_CONSUMER_IDS_CHANGED = 40


class Listeners:
    """Who is called when the members of a group changed."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._by_group: dict[str, Callable[[], None]] = {}

    def add(self, group: str, call: Callable[[], None]) -> None:
        """Call this for a group, and no longer what was called before."""
        self._by_group[group] = call

    def hear(self, frame: Frame) -> None:
        """Take what a broker said."""
        if frame.code == NOTIFY_CONSUMER_IDS_CHANGED:
            group = frame.fields.get("consumerGroup", "")
            call = self._by_group.get(group)
            if call is not None:
                try:
                    call()
                except Exception:  # it must not end the connection that brought the news
                    log.exception("the callback for changed members of group %r failed", group)
