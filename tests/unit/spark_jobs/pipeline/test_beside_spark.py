"""The parts of a pinned job that run without Spark."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from contract import exit_codes
from contract.report import DriverReport
from lb_core.slots import Slot, Slots
from mq_client.errors import NoNameServerError, UsageError
from mq_client.values import MessageQueue
from spark_jobs.pipeline import driver, executor_slots, job
from spark_jobs.pipeline.assignments import (
    NO_ASSIGNMENT,
    FileAssignments,
    JobAssignment,
    replace_file,
)
from spark_jobs.pipeline.executors import Executor
from spark_jobs.pipeline.facts import JobFacts, LaneFacts
from spark_jobs.pipeline.fetching import Spec, Tallies, Tally, find_own_executor, plan_tasks
from spark_jobs.pipeline.metrics import JobMetrics
from spark_jobs.planning import Range
from tests.pinned_jobs import A, B, C, D, described

ONE, TWO = Executor("1", "10.0.0.1", 1), Executor("2", "10.0.0.2", 2)


def specs(
    ranges: list[Range],
    owners: dict[MessageQueue, str],
    filled: dict[str, Executor],
    helpers: list[str] | None = None,
) -> list[tuple[str | None, str | None, list[int]]]:
    """List for each task the slot, the executor to which it is sent, and its queues."""
    found = []
    for task in plan_tasks(ranges, owners, filled, helpers or ()):
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


def test_queues_of_an_empty_slot_stay_in_their_lane() -> None:
    ranges = [Range(A, 0, 10), Range(B, 0, 90)]
    filled = {"s-0": ONE, "s-2": TWO}
    assert specs(ranges, {A: "s-1", B: "s-0"}, filled, ["s-0"]) == [("s-0", "1", [0, 1])]


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
    one = Tally({"s-0": 2}, 10, 0, 1, 4, ended={7: {"a": 1}})
    two = Tally({"s-0": 3, "s-1": 1}, 5, 1, 1, 5, ended={7: {"a": 1, "b": 1}, 8: {"a": 1}})
    for part in (one, two):
        total = tallies.addInPlace(total, part)
    ended = {7: {"a": 2, "b": 1}, 8: {"a": 1}}
    assert total == Tally({"s-0": 5, "s-1": 1}, 15, 1, 2, 9, ended=ended)


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


def test_an_assignment_may_leave_numbers_out_of_its_slots() -> None:
    known = Slots("s", (Slot(0, "7"),))
    found = executor_slots.add_named(known, ["s-0", "s-2", "other-1", "s-x"])
    assert found == Slots("s", (Slot(0, "7"), Slot(2)))
    assert executor_slots.add_named(known, ["s-0"]) is known


def test_metrics_show_what_the_job_knows_and_what_the_brokers_hold() -> None:
    tally = Tally({"s-0": 5, "s-1": 7}, 900, 1, 4, 12)
    facts = JobFacts(
        3, 2, 41, {"s-0": ONE}, is_pinned=True, tally=tally, error=None, given_up=8, refused=9,
        cancelled={"broker": 2},
        started={"java": 2.2}, lanes=[LaneFacts(0), LaneFacts(1, 42, 3.5, 700, ["broker-b"])],
    )  # fmt: skip
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
    assert found("evenkeel_job_cancelled_batches_total", {"silent": "broker"}) == 2
    lanes = [{"lane": "0"}, {"lane": "1"}]
    assert [found("evenkeel_job_lane_batch", each) for each in lanes] == [None, 42]
    assert [found("evenkeel_job_lane_batch_seconds", each) for each in lanes] == [0, 3.5]
    assert [found("evenkeel_job_lane_batch_offsets", each) for each in lanes] == [0, 700]
    assert found("evenkeel_job_lane_left_out", {"lane": "1", "broker": "broker-b"}) == 1
    assert found("evenkeel_job_start_seconds", {"step": "java"}) == 2.2
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
