"""How a driver in Kubernetes reacts to the API server, without a cluster."""

import http.client
import json
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contract.report import DriverReport
from mq_client.errors import UsageError
from spark_jobs.pipeline import job, kube
from spark_jobs.pipeline.assignments import FileAssignments
from spark_jobs.pipeline.hearing import AssignmentWatcher
from spark_jobs.pipeline.kube import KubeApi, KubeConflictError, KubeError
from spark_jobs.pipeline.lease import (
    DriverLease,
    DriverTerms,
    LeaseLostError,
    compute_wait,
    make_held_spec,
    read_clock,
)
from spark_jobs.pipeline.overdue import OverduePods
from spark_jobs.pipeline.reporting import EncodedReport, ReportWriter, compute_delay, encode_report
from tests import http_answers
from tests.pinned_jobs import described

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "unchanged_for", "seconds"),
    [
        ({}, 0, 0),
        ({"holderIdentity": "", "leaseDurationSeconds": 30}, 0, 0),
        ({"holderIdentity": "me", "leaseDurationSeconds": 30}, 0, 0),
        ({"holderIdentity": "other", "leaseDurationSeconds": 12}, 0, 12),
        ({"holderIdentity": "other", "leaseDurationSeconds": 12}, 5, 7),
        ({"holderIdentity": "other", "leaseDurationSeconds": 12}, 12, 0),
        ({"holderIdentity": "other"}, 0, 30),
    ],
    ids=["new", "given back", "mine", "seen now", "seen before", "not renewed", "no duration"],
)
def test_a_lease_is_free_when_its_holder_has_not_renewed_it_for_its_duration(
    spec: dict[str, Any], unchanged_for: float, seconds: float
) -> None:
    assert compute_wait(spec, "me", unchanged_for) == seconds


def test_a_lease_counts_its_holders_and_keeps_what_it_does_not_know() -> None:
    taken = make_held_spec("me", {"strategy": "OldestEmulationVersion"}, 30, NOON)
    assert taken == {
        "strategy": "OldestEmulationVersion",
        "holderIdentity": "me",
        "leaseDurationSeconds": 30,
        "acquireTime": "2025-01-01T12:00:00.000000Z",
        "renewTime": "2025-01-01T12:00:00.000000Z",
        "leaseTransitions": 1,
    }
    later = datetime(2025, 1, 1, 12, 0, 5, tzinfo=UTC)
    assert make_held_spec("me", taken, 30, later) == {
        **taken,
        "renewTime": "2025-01-01T12:00:05.000000Z",
    }
    assert make_held_spec("you", taken, 30, later)["leaseTransitions"] == 2


def leased(api: KubeApi, clock: list[float], **terms: float) -> tuple[DriverLease, list[str]]:
    """A Lease that `me` has taken, and the reasons for which it was lost."""
    lost: list[str] = []
    found = DriverLease(api, "/lease", "me", lost.append, DriverTerms(**terms), lambda: clock[0])
    assert found.take(threading.Event())
    return found, lost


def held(who: str, transitions: int = 1) -> dict[str, Any]:
    return {"spec": {"holderIdentity": who, "leaseTransitions": transitions}}


def test_a_driver_whose_machine_has_slept_ends_at_once() -> None:
    """The clock jumps, as it does when a machine wakes up."""
    clock, is_lost = [0.0], threading.Event()
    api = Scripted({"spec": {}}, held("me"))
    lease = DriverLease(
        api, "/lease", "me", lambda _: is_lost.set(), DriverTerms(), lambda: clock[0]
    )
    assert lease.take(threading.Event())
    with lease.keep():
        clock[0] = 40.0
        assert is_lost.wait(20)


def test_the_clock_of_a_lease_counts_the_time_that_a_machine_sleeps() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= read_clock() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_lease_is_renewed_before_what_cannot_be_undone() -> None:
    api = Scripted({"spec": {}}, held("me"), held("me"))
    lease, lost = leased(api, [0.0])
    lease.confirm()
    assert api.asked == ["/lease"] * 3
    assert lost == []


@pytest.mark.parametrize("holder", ["other", ""], ids=["runs", "has ended"])
def test_nothing_is_done_any_more_once_another_driver_had_the_lease(holder: str) -> None:
    api = Scripted({"spec": {}}, held("me", 1), KubeConflictError("old"), held(holder, 2))
    lease, lost = leased(api, [0.0])
    with pytest.raises(LeaseLostError):
        lease.confirm()
    assert len(lost) == 1


def test_a_lease_that_the_operator_gave_back_too_soon_is_taken_again() -> None:
    api = Scripted(
        {"spec": {}}, held("me", 1), KubeConflictError("old"), held("", 1), held("me", 2)
    )
    lease, lost = leased(api, [0.0])
    lease.confirm()
    assert lost == []


def test_nothing_is_done_while_the_lease_cannot_be_made_sure_of() -> None:
    clock = [0.0]

    class Silent(Scripted):
        def ask(self, *given: Any, **more: Any) -> Any:
            clock[0] += 10.0
            return super().ask(*given, **more)

    lease, lost = leased(Silent({"spec": {}}, held("me")), clock, pause=0.0)
    with pytest.raises(LeaseLostError):
        lease.confirm()
    assert lost == ["the Lease /lease could not be renewed for 25 s"]


FACTS = {
    "adoptedEpoch": 3, "batch": 7, "slots": {}, "pinned": True, "rows": {"a-0": 5}, "bytes": 50,
    "tasks": 2, "misplacedTasks": 0, "error": None,
}  # fmt: skip


def written(**changes: Any) -> EncodedReport:
    return encode_report(msgspec.convert({**FACTS, **changes}, DriverReport))


@pytest.mark.parametrize(
    ("changes", "age", "seconds"),
    [
        ({}, 100, None),
        ({"adoptedEpoch": 4}, 0, 0),
        ({"slots": {"a-0": {"executor": "1", "host": "10.0.0.1"}}}, 0, 0),
        ({"pinned": False}, 0, 0),
        ({"error": "no"}, 0, 0),
        ({"rows": {"a-0": 6}, "bytes": 60, "tasks": 3, "misplacedTasks": 1, "batch": 8}, 4, 6),
        ({"rows": {"a-0": 6}}, 11, 0),
    ],
    ids=["same", "epoch", "slots", "pinned", "error", "counters", "counters, later"],
)
def test_counters_alone_can_wait_and_what_is_the_same_is_not_written(
    changes: dict[str, Any], age: float, seconds: float | None
) -> None:
    assert compute_delay(written(**changes), written(), age) == seconds


def test_the_first_report_is_written_at_once_and_no_report_never() -> None:
    assert compute_delay(written(), None, 0) == 0
    assert compute_delay(None, None, 0) is None


class Scripted(KubeApi):
    """Answers from the test's script; an error in the script is raised."""

    def __init__(self, *script: Any, objects: dict[str, Any] | None = None) -> None:
        super().__init__("https://nowhere", Path())
        self._script = list(script)
        self.objects = objects or {}
        self.asked: list[str] = []
        self.deleted: list[tuple[str, object]] = []

    def ask(self, method: str, path: str, body: object = None, media_type: str = kube.JSON) -> Any:
        self.asked.append(path)
        if method == "DELETE":
            self.deleted.append((path.rpartition("/")[2], body))
        if path in self.objects:
            return self.objects[path]
        return self._next()

    def watch(self, path: str, silence_seconds: float) -> Iterator[Any]:
        self.asked.append(path)
        yield from self._next()

    def _next(self) -> Any:
        if not self._script:
            raise KubeError("the script has ended")
        found = self._script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def group(epoch: int, version: str = "1", **more: Any) -> dict[str, Any]:
    status = {"epoch": epoch, "assignments": [share("a-0", "0-3")], "lag": 7, **more}
    return {"metadata": {"resourceVersion": version}, "status": status}


def share(consumer: str, ids: str) -> dict[str, Any]:
    queues = [{"topic": "orders", "broker": "broker-a", "ids": ids}]
    return {"consumer": consumer, "executor": "1", "queues": queues}


def listed(*groups: dict[str, Any], version: str = "1") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "items": list(groups)}


def event(kind: str, found: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": found}


def heard(tmp_path: Path, *script: Any, **objects: Any) -> Scripted:
    """Follow assignments from a script of answers, to its end."""
    api = Scripted(*script, **objects)
    with pytest.raises(KubeError, match="the script has ended"):
        AssignmentWatcher(api, "mq", "billing", tmp_path / "heard.json").list_and_watch()
    return api


def test_what_is_listed_and_then_watched_is_read_by_the_job(tmp_path: Path) -> None:
    file = tmp_path / "heard.json"
    heard(tmp_path, listed(group(1)))
    assert FileAssignments(file, "").read_latest().slots == ("a-0",)
    changed = group(2, assignments=[share("a-0", "0-1"), share("a-1", "2-3")])
    heard(tmp_path, listed(group(1)), [event("MODIFIED", changed)])
    found = FileAssignments(file, "").read_latest()
    assert (found.epoch, found.slots, len(found.owners)) == (2, ("a-0", "a-1"), 4)


def test_a_group_without_an_assignment_leaves_no_file(tmp_path: Path) -> None:
    heard(tmp_path, listed(), [event("ADDED", {"metadata": {"resourceVersion": "2"}})])
    assert not (tmp_path / "heard.json").exists()


def test_an_older_epoch_is_not_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    heard(tmp_path, listed(group(5)), [event("DELETED", group(5)), event("ADDED", group(4))])
    assert json.loads((tmp_path / "heard.json").read_text())["epoch"] == 5
    assert "ConsumerGroup mq/billing is deleted" in caplog.text
    assert "ConsumerGroup mq/billing: epoch 4 is older than the known epoch 5" in caplog.text


def test_who_is_to_be_drained_is_heard_without_a_new_epoch(tmp_path: Path) -> None:
    file = tmp_path / "heard.json"
    files = FileAssignments(file, "")
    heard(tmp_path, listed(group(5)))
    assert files.read_latest().drained == frozenset()
    asked = group(5)
    asked["metadata"]["annotations"] = {"evenkeel.dev/drain": "exec-1, exec-2,"}
    heard(tmp_path, listed(group(5)), [event("MODIFIED", asked)])
    found = files.read_latest()
    assert (found.epoch, sorted(found.drained)) == (5, ["exec-1", "exec-2"])


def test_what_else_changes_in_a_status_does_not_touch_the_file(tmp_path: Path) -> None:
    file = tmp_path / "heard.json"
    api = Scripted(listed(group(5)), [event("MODIFIED", group(5, lag=8))])
    api.watch = watched = Watched(api, file)  # type: ignore[method-assign]
    with pytest.raises(KubeError):
        AssignmentWatcher(api, "mq", "billing", file).list_and_watch()
    assert watched.stamps[0] == (file.stat().st_mtime_ns, file.stat().st_ino)


class Watched:
    """An API that reads the watcher's file before each watch."""

    def __init__(self, api: Scripted, file: Path) -> None:
        self._api = api
        self._file = file
        self.stamps: list[tuple[int, int]] = []

    def __call__(self, path: str, silence_seconds: float) -> Iterator[Any]:
        facts = self._file.stat()
        self.stamps.append((facts.st_mtime_ns, facts.st_ino))
        return Scripted.watch(self._api, path, silence_seconds)


def test_a_watch_goes_on_where_the_last_one_has_ended(tmp_path: Path) -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    api = heard(
        tmp_path, listed(group(1), version="5"), [event("MODIFIED", group(2, "7"))], [bookmark]
    )
    versions = [path.partition("resourceVersion=")[2].partition("&")[0] for path in api.asked]
    assert versions == ["", "5", "7", "9"]


def test_a_version_that_is_too_old_to_watch_from_is_an_error(tmp_path: Path) -> None:
    api = Scripted(listed(), [event("ERROR", {"code": 410, "message": "too old"})])
    with pytest.raises(KubeError, match="the watch ends: too old"):
        AssignmentWatcher(api, "mq", "billing", tmp_path / "heard.json").list_and_watch()


def test_after_a_watch_without_a_word_it_is_listed_again(tmp_path: Path) -> None:
    """The resource version can have become too old meanwhile."""
    api = Scripted(listed(), [event("MODIFIED", group(1))], [], listed())
    hearing = AssignmentWatcher(api, "mq", "billing", tmp_path / "heard.json")
    hearing.list_and_watch()
    assert [("watch=1" in path) for path in api.asked] == [False, True, True]


def test_slices_are_joined_and_each_is_read_once(tmp_path: Path) -> None:
    maps = "/api/v1/namespaces/mq/configmaps"
    objects: dict[str, Any] = {
        f"{maps}/{name}": {"data": {"assignments.json": json.dumps(shares)}}
        for name, shares in {
            "one": [share("a-0", "0")], "two": [share("a-1", "1"), share("a-2", "2")]
        }.items()
    }  # fmt: skip
    sliced = group(3, assignments=[], slices=["one", "two"])
    api = heard(tmp_path, listed(sliced), [event("MODIFIED", sliced)], objects=objects)
    assert FileAssignments(tmp_path / "heard.json", "").read_latest().slots == ("a-0", "a-1", "a-2")
    assert [path for path in api.asked if path in objects] == list(objects)


def test_a_slice_that_holds_nothing_is_named(tmp_path: Path) -> None:
    objects: dict[str, Any] = {"/api/v1/namespaces/mq/configmaps/one": {"data": {}}}
    api = Scripted(listed(group(3, slices=["one"])), objects=objects)
    with pytest.raises(KubeError, match=r"ConfigMap mq/one has no assignments\.json"):
        AssignmentWatcher(api, "mq", "billing", tmp_path / "heard.json").list_and_watch()


class Slow(KubeApi):
    """An API server that answers only when the test lets it."""

    def __init__(self) -> None:
        super().__init__("https://nowhere", Path())
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self.written: list[Any] = []

    def ask(self, method: str, path: str, body: object = None, media_type: str = kube.JSON) -> Any:
        self.asked.set()
        self.let_go.wait()
        self.written.append(body)


def test_a_server_that_does_not_answer_holds_nobody_up_and_gets_the_newest_report() -> None:
    api = Slow()
    reporting = ReportWriter(api, "mq", "billing-driver")
    with reporting.run_in_thread():
        reporting.submit(DriverReport(batch=0))
        api.asked.wait()
        for number in range(1, 4):
            reporting.submit(DriverReport(batch=number))
        api.let_go.set()
    written = [json.loads(each["data"]["report.json"]) for each in api.written]
    assert [each["batch"] for each in written] == [0, 3]


def test_a_last_report_that_cannot_be_written_does_not_keep_the_driver(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    reporting = ReportWriter(Scripted(), "mq", "billing-driver")
    with caplog.at_level(logging.ERROR), reporting.run_in_thread():
        reporting.submit(DriverReport(batch=0))
    assert "ConfigMap mq/billing-driver: the last report is not written" in caplog.text


@pytest.fixture
def credentials(tmp_path: Path) -> str:
    for name in ("token", "ca.crt"):
        (tmp_path / name).touch()
    return str(tmp_path)


def test_a_driver_is_named_by_its_file_or_by_its_environment(
    tmp_path: Path, credentials: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def holder(**more: str) -> str:
        parts = {"namespace": "mq", "name": "billing", "credentials": credentials, **more}
        found = job.load(described(tmp_path, kubernetes=parts)).kubernetes
        assert found is not None
        return found.holder

    monkeypatch.setenv("EVENKEEL_POD_UID", "from-the-pod")
    assert holder() == "from-the-pod"
    assert holder(holder="from-the-file") == "from-the-file"


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"holder": ""}, "holder is missing, here and in the environment as EVENKEEL_POD_UID"),
        ({"server": "http://api:80"}, "server must be https://HOST .* not 'http://api:80'"),
        ({"server": "https://api:99999"}, "server must be"),
        ({"server": "https://"}, "server must be"),
        ({"credentials": "/nowhere"}, "credentials: /nowhere/token does not exist"),
        ({"name": ""}, r"length >= 1 - at `\$\.kubernetes\.name`"),
        ({"pod": "x"}, "unknown field `pod`"),
    ],
)
def test_a_driver_that_cannot_be_in_kubernetes_is_an_error_that_names_the_field(
    tmp_path: Path,
    credentials: str,
    changes: dict[str, str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("EVENKEEL_POD_UID", raising=False)
    parts = {"namespace": "mq", "name": "billing", "holder": "me", "credentials": credentials}
    with pytest.raises(UsageError, match=complaint):
        job.load(described(tmp_path, kubernetes={**parts, **changes}))


def ending(name: str, grace: int | None, executor: str, uid: str = "") -> dict[str, Any]:
    labels = {"spark-exec-id": executor}
    facts: dict[str, Any] = {"name": name, "uid": uid or name, "labels": labels}
    if grace is not None:
        when = "2025-01-01T12:00:00Z"
        facts |= {"deletionTimestamp": when, "deletionGracePeriodSeconds": grace}
    return {"metadata": facts}


def overdue_pods(*pods: list[dict[str, Any]]) -> tuple[OverduePods, Scripted]:
    """Show these pods at each check; a check that deletes a pod needs one more answer."""
    api = Scripted(*({"items": each} if each else {} for each in pods))
    overdue = OverduePods(api, "mq", "billing")
    overdue.follow(["1", "2"])
    return overdue, api


def within(grace: int, uid: str) -> dict[str, Any]:
    return {"gracePeriodSeconds": grace, "preconditions": {"uid": uid}}


def test_a_pod_is_removed_when_it_has_had_its_time_and_is_still_there() -> None:
    pods = [ending("stuck", 30, "1"), ending("slow", 90, "2"), ending("alive", None, "3")]
    overdue, api = overdue_pods(pods, pods, pods, [])
    overdue.look(1000)
    overdue.look(1035)
    only = "labelSelector=evenkeel.dev%2Fgroup%3Dbilling%2Cspark-role%3Dexecutor"
    assert api.asked == [f"/api/v1/namespaces/mq/pods?{only}"] * 2
    overdue.look(1036)
    assert api.asked[3:] == ["/api/v1/namespaces/mq/pods/stuck"]
    assert api.deleted == [("stuck", within(0, "stuck"))]


def test_a_pod_whose_executor_is_lost_is_to_end_at_once_and_is_then_removed() -> None:
    busy, alive = ending("busy", 150, "1"), ending("alive", None, "4")
    pods = [busy, ending("lost", 150, "3"), alive]
    hurried = [busy, ending("lost", 1, "3"), alive]
    overdue, api = overdue_pods(pods, pods, pods, [], hurried, [])
    overdue.look(1000)
    overdue.look(1010)
    assert api.deleted == []
    overdue.look(1011)
    assert api.deleted == [("lost", within(1, "lost"))]
    overdue.look(1016)
    assert api.deleted[1:] == [("lost", within(0, "lost"))]


def test_another_pod_of_the_same_name_has_its_own_time() -> None:
    overdue, api = overdue_pods(*([ending("exec-1", 30, "1", uid)] for uid in ("a", "b", "b")))
    overdue.look(1000)
    overdue.look(1040)
    overdue.look(1070)
    assert len(api.asked) == 3


class Plain(KubeApi):
    """An API client without TLS."""

    def _connect(self, seconds: float) -> Any:
        return http.client.HTTPConnection(self._host, self._port or 0, timeout=seconds)


def test_a_driver_follows_no_redirect(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-driver")
    with (
        http_answers.answering([b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]) as other,
        http_answers.answering(http_answers.redirect(307, other[0])) as (server, asked),
    ):
        client = Plain(server, tmp_path)
        with pytest.raises(KubeError, match="GET /api: HTTP 307"):
            client.ask("GET", "/api")
        with pytest.raises(KubeError, match="GET /api: HTTP 307"):
            list(client.watch("/api", 1.0))
        client.close()
    assert b"of-the-driver" in asked[0]
    assert other[1] == []
