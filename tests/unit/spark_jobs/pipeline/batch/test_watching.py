"""Which executors count as silent, and which batches may leave out a broker."""

from collections.abc import Callable, Mapping, Set
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mq_client.errors import ConnectionLostError, NoNameServerError
from spark_jobs.pipeline import users_part
from spark_jobs.pipeline.batch.watching import (
    BROKER_SECONDS,
    EXECUTOR_SECONDS,
    REST_SECONDS,
    BrokerProbe,
    SilentBrokers,
    SilentExecutors,
    TroubleWatch,
)
from spark_jobs.pipeline.checkpoint.journal import PlannedBatch
from spark_jobs.pipeline.checkpoint.plans import BatchPlan
from tests.pinned_jobs import make_job_file


class FakeExecutors:
    """Executors that answer at once, or do not answer while they are frozen."""

    def __init__(self) -> None:
        self.now = 100.0
        self.frozen: set[str] = set()
        self.gone: set[str] = set()
        self.silent = SilentExecutors(self.ask, lambda: self.now)

    def ask(self, name: str) -> Callable[[], bool] | None:
        is_alive = name not in self.frozen
        return None if name in self.gone else lambda: is_alive or name not in self.frozen

    def look(self, seconds: float, *names: str) -> frozenset[str]:
        """Let this time pass, and look."""
        self.now += seconds
        self.silent.look(set(names or ("1", "2")))
        return self.silent.suspected

    @property
    def now_silent(self) -> frozenset[str]:
        return self.silent.find_silent(0)


def test_an_executor_is_suspected_if_it_does_not_answer_and_rests_when_it_answers_again() -> None:
    it = FakeExecutors()
    assert it.look(0) == it.look(60) == set(), "nobody has looked for long, and all have answered"
    it.frozen = {"1"}
    assert it.look(0.1) == set()
    assert it.look(EXECUTOR_SECONDS - 0.1) == set()
    assert it.look(0.2) == it.look(60) == {"1"} == it.now_silent
    assert it.silent.find_silent(70) == set(), "an old batch is worth more patience"
    it.frozen = set()
    assert it.look(REST_SECONDS - 0.1) == {"1"}
    assert it.now_silent == set(), "nothing waits for it, although it rests"
    assert it.look(0.2) == set()


def test_questions_that_nobody_has_looked_at_prove_no_silence() -> None:
    it = FakeExecutors()
    it.frozen = {"1"}
    it.look(0)
    it.silent.forget()
    assert it.look(60) == set()
    assert it.look(EXECUTOR_SECONDS) == {"1"}


def test_an_executor_that_is_gone_is_not_asked() -> None:
    it = FakeExecutors()
    it.frozen = it.gone = {"1"}
    assert it.look(0) == it.look(60) == set()
    it.gone = set()
    it.look(0)
    assert it.look(60, "2") == set(), "Spark has removed it"
    assert it.look(0) == set(), "if its id is there again, it is asked anew"


class FakeBrokers:
    """Brokers that do not answer while they are in `down`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.down: set[str] = set()
        self.silent = SilentBrokers(lambda topics: self.down & topics.keys(), lambda: self.now)

    def look(self, seconds: float) -> frozenset[str]:
        self.now += seconds
        self.silent.look({"broker-a": "orders", "broker-b": "orders"})
        return self.silent.find_silent(0)


def test_a_broker_is_silent_if_it_has_not_answered_for_a_second() -> None:
    it = FakeBrokers()
    it.down = {"broker-b"}
    assert it.look(0) == it.look(BROKER_SECONDS - 0.1) == set(), "it may only be restarting"
    assert it.look(0.2) == {"broker-b"}
    assert it.silent.find_silent(2 * BROKER_SECONDS) == set(), "an old batch is worth more patience"
    it.down = set()
    assert it.look(0.3) == set()
    it.down = {"broker-b"}
    assert it.look(60) == set(), "it has answered since"
    assert it.look(60) == {"broker-b"}
    it.silent.forget()
    assert it.silent.find_silent(0) == set()


class FakeNetwork:
    """Brokers that answer at some addresses, and the routes that name servers give."""

    def __init__(self, alive: set[str], routes: dict[str, str] | None) -> None:
        self.alive = alive
        self.routes = routes
        self.engine = self

    def run(self, flow: Any) -> dict[str, Any]:
        (asked,) = [next(flow)]
        lost = ConnectionLostError("refused")
        outcomes = [None if ask.address in self.alive else lost for ask in asked.asks]
        try:
            flow.send(outcomes)
        except StopIteration as end:
            found: dict[str, Any] = end.value
            return found
        raise AssertionError

    def find_route(self, topic: str, max_age: float) -> Any:
        if self.routes is None:
            raise NoNameServerError("none answers")
        found = self.routes

        def find_broker(broker: str) -> Any:
            return SimpleNamespace(find_address=lambda: found[broker]) if broker in found else None

        return SimpleNamespace(find_broker=find_broker)


@pytest.mark.parametrize(
    ("alive", "routes", "failed", "known"),
    [
        ({"1:1", "1:2"}, {}, set(), {"a": "1:1", "b": "1:2"}),
        ({"1:1"}, {}, {"b"}, {"a": "1:1", "b": "1:2"}),
        ({"1:1"}, {"a": "1:1", "b": "1:2"}, {"b"}, {"a": "1:1", "b": "1:2"}),
        ({"1:1", "9:9"}, {"b": "9:9"}, set(), {"a": "1:1", "b": "9:9"}),
        (set(), None, {"a", "b"}, {"a": "1:1", "b": "1:2"}),
    ],
    ids=["a new name server", "killed", "frozen", "moved", "no name server"],
)
def test_a_broker_does_not_answer_if_it_is_silent_where_it_was_and_is_nowhere_else(
    alive: set[str], routes: dict[str, str] | None, failed: set[str], known: dict[str, str]
) -> None:
    network: Any = FakeNetwork(alive, routes)
    addresses = {"a": "1:1", "b": "1:2"}
    assert BrokerProbe(network, addresses).ask({"a": "orders", "b": "orders"}) == failed
    assert addresses == known


def test_a_broker_that_nobody_knows_does_not_answer() -> None:
    """A driver that starts with a planned batch has asked no broker yet."""
    network: Any = FakeNetwork({"9:9"}, {"b": "9:9"})
    probe = BrokerProbe(network, {})
    assert probe.ask({"a": "orders", "b": "orders"}) == {"a"}
    assert probe.ask({"b": "orders"}) == set()


class FakeProbe:
    """Brokers at known addresses; those in `down` do not answer."""

    down: Set[str] = frozenset()

    def ask(self, topics: Mapping[str, str]) -> Set[str]:
        return self.down & topics.keys()


def make_watch(*, may_leave_out: bool = True) -> TroubleWatch:
    replaced: Any = FakeProbe()
    watch = TroubleWatch(replaced, replaced, lambda: {"1"}, lambda plan: may_leave_out)
    watch._brokers._seconds = {"broker-a": 1.5}
    return watch


@pytest.mark.parametrize(
    ("pulled", "seconds", "may", "is_trouble"),
    [
        ({"broker-a"}, 2, True, True),
        ({"broker-b"}, 2, True, False),
        ({"broker-a"}, 2, False, False),
        ({"broker-a"}, 20, True, False),
    ],
    ids=["silent", "all is pulled", "a sink that must not shrink", "an old batch"],
)
def test_a_batch_is_in_trouble_if_it_pulls_from_a_silent_broker(
    pulled: set[str], seconds: float, may: bool, is_trouble: bool
) -> None:
    watch = make_watch(may_leave_out=may)
    plan = BatchPlan("q", "", PlannedBatch(5, 1, "", {}, []), 0.0)
    trouble = watch.find_trouble(plan, "group", pulled, seconds)
    assert (trouble is not None and trouble.brokers == {"broker-a"}) is is_trouble


MAY = "FEWER_ROWS = True\n"


@pytest.mark.parametrize(
    ("sink", "dead", "may"),
    [
        (None, None, True), ("", None, False), (MAY, None, True), (MAY, "", False),
        (None, MAY, True), ("FEWER_ROWS = 'no'\n", None, False), ("jdbc", None, False),
    ],
)  # fmt: skip
def test_a_batch_runs_again_with_fewer_rows_if_its_sinks_allow_that(
    tmp_path: Path, sink: str | None, dead: str | None, may: bool
) -> None:
    def choose(name: str, text: str | None) -> dict[str, str]:
        if text is None:
            return {"format": "json", "path": f"/{name}"}
        if text == "jdbc":
            return {"format": text}
        file = tmp_path / f"{name}.py"
        file.write_text(f"{text}def write(df, query_id, batch_id):\n    pass\n")
        return {"file": str(file)}

    job = make_job_file(sink=choose("sink", sink), deadLetter=choose("dead", dead))
    batch = PlannedBatch(5, 1, "", {}, [])
    assert users_part.read(job, lambda: None).may_leave_out(BatchPlan("q", "", batch, 0.0)) is may


def test_a_batch_that_carries_out_a_request_to_skip_leaves_out_no_broker() -> None:
    users = users_part.read(make_job_file(), lambda: None)
    batch = PlannedBatch(5, 1, "May", {}, [])
    assert not users.may_leave_out(BatchPlan("q", "", batch, 0.0))
    assert users.may_leave_out(BatchPlan("q", "May", batch, 0.0))
