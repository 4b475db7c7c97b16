"""
What a job does at the brokers in its group's name.

It tells them how far the group is, is one of its members, so that others see that somebody reads,
and asks how much is left to read.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Mapping

from mq_client.blocking import Client
from mq_client.blocking.membership import Membership
from mq_client.errors import MqError
from mq_client.filters import Filter
from mq_client.values import Queue
from spark_jobs import planning
from spark_jobs.observing import Observer
from spark_jobs.options import Reading

log = logging.getLogger("evenkeel.job")
TRY_AGAIN_SECONDS = 10.0


class Group:
    """One group, as the driver of a job sees it. Brokers that are away are told later."""

    def __init__(self, client: Client, reading: Reading, job: str) -> None:
        """Ask and tell nothing yet."""
        self._client = client
        self._reading = reading
        self._observer = Observer(client, reading)
        self._id = f"evenkeel-{job}@{socket.gethostname()}"
        self._membership: Membership | None = None
        self._topics: frozenset[str] = frozenset()
        self._told: dict[Queue, int] = {}
        self._tell_at = self._join_at = 0.0

    def tell(self, ends: Mapping[Queue, int]) -> None:
        """Tell what the brokers do not know yet of how far the group is."""
        news = {queue: end for queue, end in ends.items() if self._told.get(queue) != end}
        if not news or time.monotonic() < self._tell_at:
            return
        failed = self._observer.commit(news)
        self._told |= {queue: end for queue, end in news.items() if queue.broker not in failed}
        if failed:
            self._tell_at = time.monotonic() + TRY_AGAIN_SECONDS
        for broker, error in failed.items():
            log.warning("the group's offsets on %s stay behind for now: %s", broker, error)

    def be_seen(self, topics: frozenset[str], wanted: Filter) -> None:
        """Be a member that reads these topics."""
        if topics == self._topics or time.monotonic() < self._join_at:
            return
        self.leave()
        try:
            self._membership = self._client.join(
                self._reading.group, self._id, dict.fromkeys(topics, wanted)
            )
            self._topics = topics
        except MqError as error:
            self._join_at = time.monotonic() + TRY_AGAIN_SECONDS
            log.warning("the group does not show this job as a member for now: %s", error)

    def leave(self) -> None:
        """Be no member any more."""
        if self._membership is not None:
            with contextlib.suppress(MqError):  # brokers forget it by themselves
                self._membership.leave()
        self._membership, self._topics = None, frozenset()

    def lag(self, ends: Mapping[Queue, int]) -> dict[Queue, int]:
        """Count what each queue holds beyond these ends; brokers that are away are left out."""
        return planning.backlog(ends, self._observer.see(ends))
