"""
Manages a job's consumer group at the brokers.

This module commits the group's offsets and measures the lag. It also joins the group, so that other
clients see that the group has a member.
"""

import contextlib
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from contract import client_ids
from mq_client.blocking import Client
from mq_client.blocking.membership import Membership
from mq_client.errors import MqError
from mq_client.values import MessageQueue
from spark_jobs import planning
from spark_jobs.observing import TopicObserver
from spark_jobs.options import Reading

log = logging.getLogger("evenkeel.job")
TRY_AGAIN_SECONDS = 10.0
COMMIT_ALL_SECONDS = 20.0
"""Interval between sending all offsets again: a killed broker loses those of its last 5 s."""


class JobGroup:
    """
    The consumer group of one job. Offsets for a broker that is down are sent later.

    Requests for the lag run in the caller's thread. All others run in a separate thread, because a
    broker that does not answer must not delay the driver's loop.
    """

    def __init__(
        self, client: Client, reading: Reading, job: str, origin: str, popped: Sequence[str] = ()
    ) -> None:
        """Send nothing yet. `popped`: the topics, if the group is balanced by message."""
        self._client = client
        self._reading = reading
        self._observer = TopicObserver(client, reading)
        self._id = client_ids.make(job, socket.gethostname(), origin)
        self._membership: Membership | None = None
        self._popped = frozenset(popped)
        self._topics: frozenset[str] = frozenset()
        self._sent: dict[MessageQueue, int] = {}
        self._commit_all_at = 0.0
        self._again_at: dict[str, float] = defaultdict(float)
        """When to retry, by broker. The empty name is for joining the group."""
        self._thread = ThreadPoolExecutor(1, "group")
        self._work: Future[None] | None = None

    def update(self, ends: Mapping[MessageQueue, int]) -> None:
        """Begin to commit these offsets, and to join the group for their topics; do not wait."""
        if self._work is not None:
            if not self._work.done():
                return
            if error := self._work.exception():
                log.error("the group's offsets were not sent to the brokers", exc_info=error)
        self._work = self._thread.submit(self._update, self._select_own(ends))

    def leave(self, ends: Mapping[MessageQueue, int]) -> None:
        """Commit these offsets, leave the group, and wait until both are done."""
        self._thread.submit(self._commit_and_leave, self._select_own(ends)).result()
        self._thread.shutdown()

    def _update(self, ends: Mapping[MessageQueue, int]) -> None:
        now = time.monotonic()
        if now >= self._commit_all_at:
            self._commit_all_at = now + COMMIT_ALL_SECONDS
            self._sent.clear()
        self._commit(
            {queue: end for queue, end in ends.items() if self._again_at[queue.broker] < now}
        )
        topics = self._popped | {queue.topic for queue in ends}
        if topics != self._topics and self._again_at[""] < now:
            self._leave()
            self._join(topics)

    def _commit_and_leave(self, ends: Mapping[MessageQueue, int]) -> None:
        self._commit(ends)
        self._leave()

    def _commit(self, ends: Mapping[MessageQueue, int]) -> None:
        news = {queue: end for queue, end in ends.items() if self._sent.get(queue) != end}
        failed = self._observer.commit(news)
        self._sent |= {queue: end for queue, end in news.items() if queue.broker not in failed}
        for broker, error in failed.items():
            self._again_at[broker] = time.monotonic() + TRY_AGAIN_SECONDS
            log.warning("the group's offsets on %s cannot be updated for now: %s", broker, error)

    def _join(self, topics: frozenset[str]) -> None:
        wanted = dict.fromkeys(topics, self._reading.wanted)
        try:
            self._membership = self._client.join(self._reading.group, self._id, wanted)
            self._topics = topics
        except MqError as error:
            self._again_at[""] = time.monotonic() + TRY_AGAIN_SECONDS
            log.warning("this job is not a member of its group for now: %s", error)

    def _leave(self) -> None:
        if self._membership is not None:
            with contextlib.suppress(MqError):  # brokers remove a silent member themselves
                self._membership.leave()
        self._membership, self._topics = None, frozenset()

    def measure_lag(self, ends: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Count the messages after these ends, by queue. Leave out brokers that are down."""
        if self._popped:
            group = self._reading.group
            found = [self._client.measure_lag(group, topic) for topic in sorted(self._popped)]
            return {lag.queue: lag.ready for lags in found for lag in lags}
        mine = self._select_own(ends)
        return planning.count_lag(mine, self._observer.observe(mine))

    def _select_own(self, ends: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Leave out topics that the job no longer reads, because other members may read them."""
        return {queue: end for queue, end in ends.items() if self._reading.reads(queue.topic)}
