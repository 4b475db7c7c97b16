"""The parts of a pinned job that run without Spark."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from contract import exit_codes
from contract.report import DriverReport
from lb_core.slots import Slot, Slots
from mq_client import filters
from mq_client.errors import NoNameServerError, UsageError
from mq_client.values import MessageQueue
from spark_jobs import journal, planning
from spark_jobs.pipeline import driver, executor_slots, job, plan_source, session
from spark_jobs.pipeline.assignments import (
    NO_ASSIGNMENT,
    FileAssignments,
    JobAssignment,
    replace_file,
)
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.fetching import Spec, Tallies, Tally, find_own_executor, plan_tasks
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.pipeline.users_part import UsersPartError
from spark_jobs.planning import Range
from tests.pinned_jobs import A, B, C, D, Planned, described

ONE, TWO = Executor("1", "10.0.0.1", 1), Executor("2", "10.0.0.2", 2)


def specs(
    ranges: list[Range], owners: dict[MessageQueue, str], filled: dict[str, Executor]
) -> list[tuple[str | None, str | None, list[int]]]:
    """List for each task the slot, the executor to which it is sent, and its queues."""
    found = []
    for task in plan_tasks(ranges, owners, filled):
        spec = msgspec.json.decode(task.spec, type=Spec)
        assert spec.executor == (task.executor.id if task.executor else None)
        found.append((spec.slot, spec.executor, sorted(each[2] for each in spec.ranges)))
    return sorted(found, key=str)


def publish(path: Path, epoch: int, shares: dict[str, str]) -> None:
    """Write an assignment of one topic's queues as the operator does."""
    listed = [
        {"consumer": slot, "queues": [{"topic": "orders", "broker": "broker-a", "ids": ids}]}
        for slot, ids in shares.items()
    ]
    replace_file(path, json.dumps({"epoch": epoch, "assignments": listed}).encode())


def test_each_slots_queues_are_read_by_its_executor_with_a_task_a_core() -> None:
    ranges = [Range(queue, 0, 10) for queue in (A, B, C, D)]
    owners = {A: "s-0", B: "s-0", C: "s-1", D: "s-1"}
    assert specs(ranges, owners, {"s-0": ONE, "s-1": TWO}) == [
        ("s-0", "1", [0, 1]),
        ("s-1", "2", [2]),
        ("s-1", "2", [3]),
    ]


def test_queues_of_an_empty_slot_and_of_nobody_are_read_by_whoever_has_least() -> None:
    ranges = [Range(A, 0, 10), Range(B, 0, 10), Range(C, 0, 30), Range(D, 0, 5)]
    assert specs(ranges, {A: "s-0", B: "s-1", C: "s-2"}, {"s-0": ONE, "s-2": TWO}) == [
        ("s-0", "1", [0, 1, 3]),
        ("s-2", "2", [2]),
    ]


def test_while_there_is_no_executor_spark_chooses() -> None:
    ranges = [Range(A, 0, 10), Range(B, 0, 10)]
    assert specs(ranges, {A: "s-0"}, {}) == [(None, None, [0]), (None, None, [1])]


def test_a_slots_queues_are_dealt_by_size() -> None:
    ranges = [Range(A, 0, 100), Range(B, 0, 40), Range(C, 0, 30), Range(D, 0, 30)]
    owners = dict.fromkeys((A, B, C, D), "s-0")
    assert [queues for _, _, queues in specs(ranges, owners, {"s-0": TWO})] == [[0], [1, 2, 3]]


def test_tallies_add_up() -> None:
    tallies = Tallies()
    total = tallies.zero(Tally())
    for part in (Tally({"s-0": 2}, 10, 0, 1, 4), Tally({"s-0": 3, "s-1": 1}, 5, 1, 1, 5)):
        total = tallies.addInPlace(total, part)
    assert total == Tally({"s-0": 5, "s-1": 1}, 15, 1, 2, 9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPARK_EXECUTOR_ID", "17"),
        ("SPARK_LOG_URL_STDERR", "http://10.0.0.1:8081/logPage/?appId=a&executorId=17&logType=x"),
    ],
)
def test_a_task_knows_its_executor(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    assert find_own_executor() is None
    monkeypatch.setenv(name, value)
    assert find_own_executor() == "17"


def test_an_assignment_is_followed_and_never_back(tmp_path: Path) -> None:
    path = tmp_path / "assignment.json"
    files = FileAssignments(path, tmp_path / "report.json")
    assert files.read_latest() == NO_ASSIGNMENT
    publish(path, 2, {"s-0": "0-1,3", "s-1": ""})
    second = JobAssignment(2, ("s-0", "s-1"), {A: "s-0", B: "s-0", D: "s-0"})
    assert files.read_latest() == second
    publish(path, 1, {"s-0": ""})
    with pytest.raises(UsageError, match="epoch 1 is older than 2"):
        files.read_latest()
    publish(path, 3, {"s-1": "0"})
    assert files.read_latest() == JobAssignment(3, ("s-1",), {A: "s-1"})


def test_a_report_is_written_only_if_it_says_something_new(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    files = FileAssignments(tmp_path / "assignment.json", path)
    files.report(DriverReport(batch=1))
    path.unlink()
    files.report(DriverReport(batch=1))
    assert not path.exists()
    files.report(DriverReport(batch=2))
    assert json.loads(path.read_text())["batch"] == 2


@pytest.mark.parametrize(("stands", "begin"), [({B: 7}, 7), ({}, 3), ({B: 1}, 3), ({B: 99}, 20)])
def test_a_queue_that_is_open_again_goes_on_where_the_group_stands(
    tmp_path: Path, stands: dict[MessageQueue, int], begin: int
) -> None:
    """A committed offset that no longer exists is replaced by the nearest offset that exists."""
    source = Planned(tmp_path, "earliest", stands)
    wanted = {"expression": "*", "kind": "TAG"}
    start = {"epoch": 1, "filter": wanted, "group": "g", "offsets": journal.write_offsets({A: 5})}
    end = journal.read(source.latestOffset(start, None))
    assert end.offsets[B] == begin


def test_a_topic_that_is_taken_out_of_a_job_is_no_part_of_its_plan(tmp_path: Path) -> None:
    source = Planned(tmp_path, "earliest", {})
    out = MessageQueue("payments", "broker-a", 0)
    written = {"epoch": 1, "filter": {"expression": "*", "kind": "TAG"}, "group": "g"}
    start = {**written, "offsets": journal.write_offsets({A: 5, B: 3, out: 7})}
    end = source.latestOffset(start, None)
    source.partitions(start, end)
    plan = plan_source.take_plan(tmp_path)
    assert plan.ranges == [Range(A, 5, 10), Range(B, 3, 20)]
    assert (plan.end, plan.turned_back) == ({A: 10, B: 20}, [])
    assert journal.read(end).aside == {out: 7}
    assert source.latestOffset(end, None)["aside"] == end["aside"]


def test_a_topic_that_is_back_and_has_lost_messages_is_told_when_that_is_passed_over(
    tmp_path: Path,
) -> None:
    source = Planned(tmp_path, "earliest", {}, skip="yes")
    written = {"epoch": 1, "filter": {"expression": "*", "kind": "TAG"}, "group": "g"}
    start = {
        **written,
        "offsets": journal.write_offsets({B: 3}),
        "aside": journal.write_offsets({A: 50}),
    }
    end = source.latestOffset(start, None)
    source.partitions(start, end)
    (told,) = plan_source.take_plan(tmp_path).turned_back
    assert (told.queue, journal.read(end).offsets[A]) == (A, 10)


@pytest.mark.parametrize(("stands", "begin"), [({}, 5), ({A: 2}, 5), ({A: 8}, 8), ({A: 99}, 10)])
def test_a_topic_that_is_back_goes_on_where_it_was_or_where_its_group_stands(
    tmp_path: Path, stands: dict[MessageQueue, int], begin: int
) -> None:
    source = Planned(tmp_path, "latest", stands)
    written = {"epoch": 1, "filter": {"expression": "*", "kind": "TAG"}, "group": "g"}
    start = {**written, "offsets": {}, "aside": journal.write_offsets({A: 5})}
    end = source.latestOffset(start, None)
    assert journal.read(end) == journal.Entry({A: begin, B: 3}, filters.EVERYTHING)
    assert planning.plan_ranges(journal.read(start).offsets, journal.read(end).offsets) == []


def test_a_batch_finds_its_own_plan_and_no_other(tmp_path: Path) -> None:
    source = Planned(tmp_path, "earliest", {})
    start = source.initialOffset()
    begin = source.latestOffset(start, None)
    end = source.latestOffset(begin, None)
    publish(tmp_path / "assignment.json", 4, {"s-0": "0-1"})
    source.partitions(begin, end)
    before = time.time()
    plan = plan_source.take_plan(tmp_path)
    assert plan.begun <= before
    assert (plan.epoch, plan.end) == (0, {A: 10, B: 20})
    assert plan.ranges == [Range(A, 2, 10), Range(B, 3, 20)]
    with pytest.raises(FileNotFoundError):
        plan_source.take_plan(tmp_path)
    assert source.latestOffset(end, None)["epoch"] == 4


@pytest.mark.parametrize(
    ("stands", "begin"),
    [({}, {A: 10, B: 20}), ({A: 7}, {A: 7, B: 3}), ({A: 7, B: 8}, {A: 7, B: 8})],
    ids=["a new group", "one with a new queue", "one that has lost its checkpoint"],
)
def test_only_a_groups_first_run_begins_where_it_is_told(
    tmp_path: Path, stands: dict[MessageQueue, int], begin: dict[MessageQueue, int]
) -> None:
    source = Planned(tmp_path, "latest", stands)
    first = source.latestOffset(source.initialOffset(), None)
    assert journal.read_offsets(first["offsets"]) == begin


def test_what_a_checkpoint_holds_is_committed_before_anything_runs(tmp_path: Path) -> None:
    assert plan_source.read_committed(tmp_path) == ({}, 0)
    source = Planned(tmp_path, "earliest", {})
    written = {"epoch": 7, "filter": {"expression": "*", "kind": "TAG"}, "group": "g"}
    start = {**written, "offsets": journal.write_offsets({A: 4, B: 5})}
    end = source.latestOffset(start, None)
    source.latestOffset(end, None)
    assert plan_source.read_committed(tmp_path) == ({A: 4, B: 5}, 7)


def test_a_checkpoint_of_the_source_alone_is_refused(tmp_path: Path) -> None:
    source = Planned(tmp_path, "earliest", {})
    written = {"filter": {"expression": "*", "kind": "TAG"}, "offsets": {}}
    with pytest.raises(UsageError, match="not written by a pinned job: choose another"):
        source.latestOffset(written, None)


def test_an_assignment_may_leave_numbers_out_of_its_slots() -> None:
    known = Slots("s", (Slot(0, "7"),))
    found = executor_slots.add_named(known, ["s-0", "s-2", "other-1", "s-x"])
    assert found == Slots("s", (Slot(0, "7"), Slot(2)))
    assert executor_slots.add_named(known, ["s-0"]) is known


def test_metrics_show_what_the_job_knows_and_what_the_brokers_hold() -> None:
    tally = Tally({"s-0": 5, "s-1": 7}, 900, 1, 4, 12)
    facts = JobFacts(
        3, 2, 41, {"s-0": ONE}, is_pinned=True, tally=tally, error=None, given_up=8, refused=9
    )
    shown = JobMetrics(lambda: facts, lambda: {A: 6})
    shown.batch.observe(0.4)
    shown.failures.inc()
    found = shown.registry.get_sample_value
    assert [
        found(f"evenkeel_job_{name}")
        for name in (
            "epoch_published", "epoch_adopted", "batch", "slots_filled", "pinned", "tasks_total",
            "misplaced_tasks_total", "offsets_total", "bytes_total", "failures_total",
            "batch_seconds_sum", "given_up_tasks_total", "refused_commits_total",
        )
    ] == [3, 2, 41, 1, 1, 4, 1, 12, 900, 1, 0.4, 8, 9]  # fmt: skip
    assert found("evenkeel_job_rows_total", {"slot": "s-1"}) == 7
    queue = {"topic": "orders", "broker": "broker-a", "queue": "0"}
    assert found("evenkeel_job_lag_messages", queue) == 6


def test_a_scrape_that_selects_metrics_gets_these_and_asks_no_broker() -> None:
    def lag() -> dict[MessageQueue, int]:
        raise AssertionError("a broker was asked")

    facts = JobFacts(3, 2, 41, {}, is_pinned=True, tally=Tally(offsets=12), error=None)
    shown = JobMetrics(lambda: facts, lag)
    found = shown.write(["evenkeel_job_offsets_total", "evenkeel_job_batch"]).decode()
    lines = [line for line in found.splitlines() if not line.startswith("#")]
    assert sorted(lines) == ["evenkeel_job_batch 41.0", "evenkeel_job_offsets_total 12.0"]


def test_metrics_go_on_without_the_lag_while_brokers_are_away() -> None:
    def lag() -> dict[MessageQueue, int]:
        raise NoNameServerError("none answers")

    facts = JobFacts(3, 2, 41, {}, is_pinned=True, tally=Tally(), error=None)
    shown = JobMetrics(lambda: facts, lag)
    assert shown.registry.get_sample_value("evenkeel_job_batch") == 41
    assert "evenkeel_job_lag_messages{" not in generate_latest(shown.registry).decode()


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    facts = JobFacts(0, 0, -1, {}, is_pinned=True, tally=Tally(), error=None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"metricsPort {port} cannot be used: .*in use"):
            JobMetrics(lambda: facts, dict).serve(port)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "truncated"),
        ('{"epoch": "1"}', r"\$\.epoch"),
        (
            '{"epoch": 1, "assignments": [{"consumer": "s", "queues": '
            '[{"topic": "t", "broker": "b", "ids": "3-1"}]}]}',
            "the end must be above the start",
        ),
    ],
    ids=["half a file", "wrong type", "no range"],
)
def test_a_broken_assignment_is_an_error_that_names_the_file(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "assignment.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"assignment.json.*{complaint}"):
        FileAssignments(path, "").read_latest()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": 1}, r"Expected `str`, got `int` - at `\$\.name`"),
        ({"sources": {}}, "unknown field `sources`"),
        ({"mode": "Often"}, r"Invalid enum value 'Often' - at `\$\.mode`"),
        ({"sink": {}}, "sink needs either format or file"),
        ({"deadLetter": {"format": "json", "file": "f.py"}}, "deadLetter needs either"),
        ({"transform": {"sql": "x", "file": "f.py"}}, "sql and file"),
        ({"name": ""}, "length >= 1"),
        ({"executors": 0}, r"`int` >= 1 - at `\$\.executors`"),
        ({"triggerSeconds": -1}, "`float` >= 0"),
        ({"metricsPort": 70000}, "`int` <= 65535"),
    ],
)
def test_a_job_that_cannot_be_is_an_error_that_names_the_field(
    tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        job.load(described(tmp_path, **changes))


def users_file(text: str) -> Callable[[Path], dict[str, Any]]:
    def write(tmp_path: Path) -> dict[str, Any]:
        file = tmp_path / "users.py"
        file.write_text(text)
        return {"transform": {"file": str(file)}}

    return write


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (users_file("def transform(df:"), "users.py: SyntaxError"),
        (users_file("import nothing_of_that_name"), "users.py: ModuleNotFoundError"),
        (users_file("raise SystemExit(3)"), "users.py: SystemExit"),
        (users_file("transforms = 1"), "users.py: there is no function transform"),
        (lambda _: {"transform": {"file": "/nowhere.py"}}, "/nowhere.py: FileNotFoundError"),
        (lambda _: {"source": {"topics": "orders"}}, "nameServers is missing"),
        (
            lambda _: {"source": {"nameServers": "localhost:9876", "topics": "orders"}},
            "needs the option group",
        ),
    ],
    ids=["syntax", "import", "exit", "name", "no file", "option", "group"],
)
def test_a_job_with_a_fault_of_its_user_ends_before_spark_starts(
    tmp_path: Path, changes: Callable[[Path], dict[str, Any]], complaint: str
) -> None:
    path = described(tmp_path, **changes(tmp_path))
    assert driver.run(job.load(path)) == exit_codes.PERMANENT
    assert complaint in json.loads((tmp_path / "report.json").read_text())["error"]


@pytest.mark.parametrize("found", [None, ""])
def test_a_batch_whose_query_is_not_known_is_refused(found: str | None) -> None:
    """Without pinned threads, two checkpoints would write to one folder."""
    spark = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=lambda _: found))
    with pytest.raises(UsersPartError, match="PYSPARK_PIN_THREAD must not be false"):
        session.read_query_id(spark)  # type: ignore[arg-type]  # it uses no more


def test_options_of_a_sink_come_from_files_too(tmp_path: Path) -> None:
    """The folder is like a mounted Secret, which also contains links of the kubelet."""
    folder = tmp_path / "secret"
    (folder / "..data").mkdir(parents=True)
    (folder / "password").write_text("x\n")
    (folder / "user").write_text("billing")
    sink = {"format": "jdbc", "options": {"user": "me", "url": "u"}, "optionsFrom": str(folder)}
    read = job.load(described(tmp_path, sink=sink)).sink
    assert read.options == {"user": "billing", "url": "u", "password": "x"}
    sink["optionsFrom"] = str(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="optionsFrom cannot be read"):
        job.load(described(tmp_path, sink=sink))
