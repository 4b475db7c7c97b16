"""
What a job does at the brokers in its group's name.

It tells them how far the group is, is one of its members, so that others see that somebody reads,
and asks how much is left to read.
"""

import contextlib
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Mapping
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
TELL_ALL_SECONDS = 20.0
"""A broker writes down every 5 s what it was told; one that is killed before has forgotten it."""


class JobGroup:
    """
    One group, as the driver of a job sees it. Brokers that are away are told later.

    What is told goes through a thread of its own: a broker that does not answer must not keep the
    driver from its executors.
    """

    def __init__(self, client: Client, reading: Reading, job: str, origin: str) -> None:
        """Ask and tell nothing yet."""
        self._client = client
        self._reading = reading
        self._observer = TopicObserver(client, reading)
        self._id = client_ids.make(job, socket.gethostname(), origin)
        self._membership: Membership | None = None
        self._topics: frozenset[str] = frozenset()
        self._told: dict[MessageQueue, int] = {}
        self._tell_all_at = 0.0
        self._again_at: dict[str, float] = defaultdict(float)
        """By broker, when to try again; by the empty name, when to join."""
        self._thread = ThreadPoolExecutor(1, "group")
        self._work: Future[None] | None = None

    def follow(self, ends: Mapping[MessageQueue, int]) -> None:
        """Tell how far the group is, and be a member that reads these topics; soon."""
        if self._work is not None:
            if not self._work.done():
                return
            if error := self._work.exception():
                log.error("the brokers are not told how far the group is", exc_info=error)
        self._work = self._thread.submit(self._follow, self._mine(ends))

    def leave(self, ends: Mapping[MessageQueue, int]) -> None:
        """Tell it a last time, and be no member any more; return when that is done."""
        self._thread.submit(self._end, self._mine(ends)).result()
        self._thread.shutdown()

    def _follow(self, ends: Mapping[MessageQueue, int]) -> None:
        now = time.monotonic()
        if now >= self._tell_all_at:
            self._tell_all_at = now + TELL_ALL_SECONDS
            self._told.clear()
        self._tell(
            {queue: end for queue, end in ends.items() if self._again_at[queue.broker] < now}
        )
        topics = frozenset(queue.topic for queue in ends)
        if topics != self._topics and self._again_at[""] < now:
            self._leave()
            self._join(topics)

    def _end(self, ends: Mapping[MessageQueue, int]) -> None:
        self._tell(ends)
        self._leave()

    def _tell(self, ends: Mapping[MessageQueue, int]) -> None:
        news = {queue: end for queue, end in ends.items() if self._told.get(queue) != end}
        failed = self._observer.commit(news)
        self._told |= {queue: end for queue, end in news.items() if queue.broker not in failed}
        for broker, error in failed.items():
            self._again_at[broker] = time.monotonic() + TRY_AGAIN_SECONDS
            log.warning("the group's offsets on %s stay behind for now: %s", broker, error)

    def _join(self, topics: frozenset[str]) -> None:
        wanted = dict.fromkeys(topics, self._reading.wanted)
        try:
            self._membership = self._client.join(self._reading.group, self._id, wanted)
            self._topics = topics
        except MqError as error:
            self._again_at[""] = time.monotonic() + TRY_AGAIN_SECONDS
            log.warning("the group does not show this job as a member for now: %s", error)

    def _leave(self) -> None:
        if self._membership is not None:
            with contextlib.suppress(MqError):  # brokers forget it by themselves
                self._membership.leave()
        self._membership, self._topics = None, frozenset()

    def lag(self, ends: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Count what each queue holds beyond these ends; brokers that are away are left out."""
        mine = self._mine(ends)
        return planning.backlog(mine, self._observer.see(mine))

    def _mine(self, ends: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Leave out topics that the job reads no more: others may read them in the group's name."""
        return {queue: end for queue, end in ends.items() if self._reading.reads(queue.topic)}
