"""Finds where a job begins to read queues that are not in its journal, and where a batch ends."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from mq_client.errors import NoBrokerError
from mq_client.values import MessageQueue
from spark_jobs.planning import SeenOffsets
from spark_jobs.source import StreamReader, require_all

log = logging.getLogger("evenkeel.job")


class QueueBegins(StreamReader):
    """
    Finds where queues begin, and where a batch ends.

    It asks the brokers as the source of a stream does, but it is never part of a stream.
    """

    @property
    def addresses(self) -> dict[str, str]:
        """The newest known address of each broker that was asked so far."""
        return self._observer.addresses

    def find_all(self) -> dict[MessageQueue, int]:
        """Find where the queues of a new job begin. All brokers must answer."""
        return self._find_new({}, self._observer.observe(is_new=True), is_begun=False)

    def observe(self, known: Mapping[MessageQueue, int]) -> SeenOffsets:
        """Ask for the ends of these queues."""
        return self._observer.observe(known)

    def find_others(self, known: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Find where queues begin that are not among the known ones."""
        return self._find_new(known, self._observer.observe(is_new=False), is_begun=True)

    def require_read(self, at: Mapping[MessageQueue, int]) -> None:
        """Refuse to end a scheduled run while a broker with unread messages does not answer."""
        for queue, stop in sorted((self._last or {}).items()):
            if queue.broker in self._observer.silent and at.get(queue, 0) < stop:
                raise NoBrokerError(
                    f"{queue} is not read up to offset {stop} yet, and its broker does not answer"
                )

    def _find_last(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Find where a scheduled run stops. All brokers must answer."""
        return super()._find_last(require_all(seen))

    def _find_begin(self, seen: SeenOffsets) -> dict[MessageQueue, int]:
        """Begin at the group's committed offsets, or at the start in the options if it has none."""
        begin = super()._find_begin(seen)
        stands = self._observer.read_committed(seen)
        known = {queue.topic for queue in stands}
        for topic in sorted(known):
            log.warning(
                "%s: this checkpoint is new, but the group is not. The job continues at the "
                "brokers' offsets; messages after these are read again",
                topic,
            )
        return {
            queue: stands.get(queue, seen.queues[queue].min) if queue.topic in known else at
            for queue, at in begin.items()
        }

    def _find_new(
        self, at: Mapping[MessageQueue, int], seen: SeenOffsets, is_begun: bool
    ) -> dict[MessageQueue, int]:
        """Begin at the group's offsets in new queues, which may have been closed and reopened."""
        found = super()._find_new(at, seen, is_begun)
        if not is_begun or not found:
            return found
        new = {queue: seen.queues[queue] for queue in found}
        stands = self._observer.read_committed(replace(seen, queues=new))
        return found | {
            queue: min(max(stand, new[queue].min), new[queue].max)
            for queue, stand in stands.items()
        }
