"""
Finds out why a batch does not end: a broker or an executor that does not answer.

Spark notices a frozen executor after 12 s, and a task waits for its broker for `fetchDeadline`.
While a batch takes long, a thread asks brokers and executors for a sign of life. What answers in
time is not suspected, however slow it is.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Set
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from mq_client import flows
from mq_client.blocking import Client
from mq_client.commands.offsets import GetTopicOffsets
from mq_client.errors import MqError, UnavailableError
from spark_jobs.pipeline import executors
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from spark_jobs.pipeline.executors import ExecutorPings

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 0.3
ANY_TOPIC = "none"
"""Brokers are asked for it, because an error is an answer too."""
BROKER_SECONDS = 1.0
"""A broker is silent if it has not answered for so long, or longer if the batch is old."""
EXECUTOR_SECONDS = 2.0
"""The same for an executor."""
SHARE_OF_AGE = 0.1
"""A batch is cancelled only for a silence of at least this part of the time that it has run."""
REST_SECONDS = 5.0
"""An executor that answers again gets no tasks for so long."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a batch does not end, and what helps."""

    reason: str
    brokers: frozenset[str] = frozenset()
    """The brokers to leave out. Without any, the batch runs again on other executors."""


class SilentExecutors:
    """Knows which executors do not answer."""

    def __init__(
        self,
        ask: Callable[[str], Callable[[], bool] | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet. `ask` is `ExecutorPings.ask`."""
        self._ask = ask
        self._clock = clock
        self._asked: dict[str, tuple[float, Callable[[], bool]]] = {}
        """When each executor was asked, and whether it has answered."""
        self._seconds: dict[str, float] = {}
        """For how long each executor has not answered."""
        self._until: dict[str, float] = {}
        """Until when each executor gets no tasks."""

    def find_silent(self, seconds: float) -> frozenset[str]:
        """Find the executors that have been silent for `seconds`, at least EXECUTOR_SECONDS."""
        return _select(self._seconds, max(seconds, EXECUTOR_SECONDS))

    @property
    def suspected(self) -> frozenset[str]:
        """The executors that get no tasks now: those that are silent, or were until lately."""
        now = self._clock()
        return frozenset(name for name, until in list(self._until.items()) if now < until)

    def look(self, names: Set[str]) -> None:
        """Ask these executors, and look at the answers to the questions before."""
        now = self._clock()
        seconds: dict[str, float] = {}
        for name in names:
            asked_at, is_answered = self._asked.get(name, (now, _say_yes))
            if not is_answered():
                seconds[name] = now - asked_at
                if seconds[name] >= EXECUTOR_SECONDS:
                    self._until[name] = now + REST_SECONDS
            elif (answer := self._ask(name)) is not None:
                self._asked[name] = (now, answer)
        for name in self._asked.keys() - names:
            del self._asked[name]
        self._seconds = seconds

    def forget(self) -> None:
        """Forget questions that nobody has looked at for a while."""
        self._asked.clear()
        self._seconds = {}


def _say_yes() -> bool:
    return True


def _select(seconds: Mapping[str, float], least: float) -> frozenset[str]:
    return frozenset(name for name, each in list(seconds.items()) if each >= least)


class SilentBrokers:
    """Knows which brokers do not answer."""

    def __init__(
        self,
        ask: Callable[[Mapping[str, str]], Set[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet. `ask` is `BrokerProbe.ask`."""
        self._ask = ask
        self._clock = clock
        self._since: dict[str, float] = {}
        """When the first question ended that a silent broker has not answered."""
        self._seconds: dict[str, float] = {}
        """For how long each broker has not answered."""

    def find_silent(self, seconds: float) -> frozenset[str]:
        """Find the brokers that have been silent for `seconds`, at least BROKER_SECONDS."""
        return _select(self._seconds, max(seconds, BROKER_SECONDS))

    def look(self, topics: Mapping[str, str]) -> None:
        """Ask these brokers, each of which comes with one of its topics."""
        failed = self._ask(topics)
        now = self._clock()
        self._since = {name: self._since.get(name, now) for name in failed}
        self._seconds = {name: now - since for name, since in self._since.items()}

    def forget(self) -> None:
        """Forget the answers, because nobody has asked for a while."""
        self._since, self._seconds = {}, {}


class BrokerProbe:
    """Asks brokers for a sign of life."""

    def __init__(self, client: Client, known: MutableMapping[str, str]) -> None:
        """
        Ask nothing yet.

        `known` has the last address of each broker that was ever asked. Others change it too.
        """
        self._client = client
        self._known = known

    def ask(self, topics: Mapping[str, str]) -> Set[str]:
        """
        Ask these brokers, each of which comes with one of its topics.

        Return those that answer neither at the last known address nor elsewhere.
        """
        addresses = {name: self._known[name] for name in topics if name in self._known}
        asks = flows.ask_all(addresses, GetTopicOffsets(ANY_TOPIC), BROKER_SECONDS)
        answers = self._client.engine.run(asks)
        answered = {
            name for name, each in answers.items() if not isinstance(each, UnavailableError)
        }
        failed = topics.keys() - answered
        return {name for name in failed if not self._has_moved(name, topics[name])}

    def _has_moved(self, broker: str, topic: str) -> bool:
        """Look a broker up that has not answered; return whether it has another address now."""
        try:
            found = self._client.find_route(topic, max_age=BROKER_SECONDS).find_broker(broker)
        except MqError:
            return False  # no name server answers, or it knows nothing yet
        address = None if found is None else found.find_address()
        if address is None or address == self._known.get(broker):
            return False
        self._known[broker] = address
        return True


class TroubleWatch:
    """Watches brokers and executors while a batch takes long."""

    def __init__(
        self,
        context: SparkContext,
        probe: BrokerProbe,
        list_executors: Callable[[], Set[str]],
        may_leave_out: Callable[[BatchPlan], bool],
    ) -> None:
        """Start no thread yet. `may_leave_out`: whether a batch may run without some queues."""
        self._context = context
        self._list_executors = list_executors
        self._may_leave_out = may_leave_out
        self._topics: Mapping[str, str] = {}
        """The brokers of slow batches, each with one of its topics."""
        self._pings: ExecutorPings | None = None
        self._executors = SilentExecutors(self._ping)
        self._brokers = SilentBrokers(probe.ask)
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._error = ""

    @property
    def suspected(self) -> frozenset[str]:
        """The executors that get no tasks now."""
        return self._executors.suspected

    @property
    def silent_executors(self) -> frozenset[str]:
        """The executors that do not answer now."""
        return self._executors.find_silent(0.0)

    def watch(self, topics: Mapping[str, str], *, is_slow: bool) -> None:
        """
        Watch these brokers, and all executors, while a batch is slow or an executor is suspected.

        Each broker comes with one of its topics.
        """
        self._topics = topics
        if not is_slow and not self.suspected:
            self._wake.clear()
            return
        self._wake.set()
        if self._thread is None:
            thread = threading.Thread(target=self._keep_looking, name="watch", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # this process may have no more threads
                self._note_error(error)
                return
            self._thread = thread

    def stop(self) -> None:
        """Ask nobody any more."""
        self._topics = {}
        self._wake.clear()

    def find_trouble(
        self, plan: BatchPlan, group: str, pulled: Set[str], seconds: float
    ) -> Trouble | None:
        """
        Find out which silent broker or executor a batch waits for.

        `group`: the group of its Spark jobs. `pulled`: the brokers from which its tasks still pull.
        `seconds`: for how long it has run.
        """
        least = SHARE_OF_AGE * seconds
        brokers = self._brokers.find_silent(least) & pulled
        if brokers and self._may_leave_out(plan):
            return Trouble(f"it leaves out broker {_join(brokers)}, which does not answer", brokers)
        silent = self._executors.find_silent(least)
        try:
            if silent:
                silent &= executors.find_running(self._context, group)
        except (Py4JError, PySparkException) as error:
            self._note_error(error)
            return None
        if silent:
            return Trouble(f"executor {_join(silent)} does not answer")
        return None

    def _ping(self, executor: str) -> Callable[[], bool] | None:
        if self._pings is None:
            self._pings = ExecutorPings(self._context)
        return self._pings.ask(executor)

    def _keep_looking(self) -> None:
        while True:
            if not self._wake.is_set():
                self._executors.forget()
                self._brokers.forget()
            self._wake.wait()
            self._look()
            time.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        # Without the watch, batches run as before, so no error may end it.
        try:
            self._executors.look(self._list_executors())
        except Exception as error:  # noqa: BLE001
            self._executors.forget()
            self._note_error(error)
        try:
            self._brokers.look(self._topics)
        except Exception as error:  # noqa: BLE001
            self._brokers.forget()
            self._note_error(error)

    def _note_error(self, error: Exception) -> None:
        """Log an error, unless it is the same as the last one."""
        text = f"{type(error).__name__}: {error}"
        if text != self._error:
            self._error = text
            log.warning("slow batches are not watched now: %s", text)


def _join(names: Set[str]) -> str:
    return ", ".join(sorted(names))
