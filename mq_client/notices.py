"""Handles notices from brokers. The connection answers all other requests of brokers."""

import logging
from collections.abc import Callable

from mq_client.frames import Frame

log = logging.getLogger("mq_client")

NOTIFY_CONSUMER_IDS_CHANGED = 40


class Listeners:
    """Functions to call when the members of a group change."""

    def __init__(self) -> None:
        """Begin without listeners."""
        self._by_group: dict[str, Callable[[], None]] = {}

    def add(self, group: str, call: Callable[[], None]) -> None:
        """Call `call` for this group from now on, instead of the previous function."""
        self._by_group[group] = call

    def hear(self, frame: Frame) -> None:
        """Handle a notice."""
        if frame.code == NOTIFY_CONSUMER_IDS_CHANGED:
            group = frame.fields.get("consumerGroup", "")
            call = self._by_group.get(group)
            if call is not None:
                try:
                    call()
                except Exception:  # an error must not end the connection
                    log.exception("the callback for changed members of group %r failed", group)
