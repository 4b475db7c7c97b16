"""A driver on a real API server, with the rights that the operator gives it and no others."""

import base64
import contextlib
import itertools
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from contract.exit_codes import PERMANENT, TRY_AGAIN
from mq_client import blocking
from mq_client.choosers import RoundRobin
from mq_client.messages import Message
from sandbox import executors, jars
from sandbox.jobs import SPARK, RunningJob
from sandbox.kubernetes import Cluster
from sandbox.rocketmq import RocketMq
from sandbox.statuses import Document
from sandbox.waiting import wait_for
from spark_jobs.pipeline import hearing, kube, lease, overdue
from spark_jobs.pipeline.assignments import FileAssignments
from spark_jobs.pipeline.hearing import AssignmentWatcher
from spark_jobs.pipeline.lease import DriverLease, DriverTerms
from spark_jobs.pipeline.overdue import OverduePods
from tests.real.cluster.running import make_namespace

PATIENCE_SECONDS = 120.0
HASTE = DriverTerms(duration=2.0, deadline=1.0, period=0.2, pause=0.1)
GROUP, DRIVER, SLICES = "billing", "billing-driver", ("billing-3-0", "billing-3-1")
JOB = {
    "topics": [{"name": "orders"}],
    "job": {
        "sink": {"format": "parquet", "path": "/rows"},
        "checkpoint": {"persistentVolumeClaim": "state"},
    },
}
RULES = [
    ("evenkeel.dev", "consumergroups", ["get", "list", "watch"], [GROUP]),
    ("", "configmaps", ["get", "patch"], [DRIVER]),
    ("", "configmaps", ["get"], list(SLICES)),
    ("coordination.k8s.io", "leases", ["get", "update"], [DRIVER]),
    ("", "pods", ["list", "delete"], []),
]
RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces"
_numbers = itertools.count(1)


class Place:
    """A namespace with a group, the objects that an operator makes for it, and a pod's files."""

    def __init__(self, cluster: Cluster, name: str, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.name = name
        self.opened: list[kube.KubeApi] = []
        self.objects = make_namespace(cluster.admin, name)
        self.objects.make("ConsumerGroup", GROUP, JOB)
        self._make(self.objects.core("configmaps"), {"metadata": {"name": DRIVER}})
        self.make_lease()
        self._give_rights()
        for file, text in self._credentials().items():
            (folder / file).write_text(text)

    def kubernetes(self, holder: str) -> Document:
        """The part of a job's file about this place."""
        return {
            "namespace": self.name,
            "name": GROUP,
            "holder": holder,
            "server": self.cluster.url,
            "credentials": str(self.folder),
        }

    def api(self) -> kube.KubeApi:
        self.opened.append(kube.KubeApi(self.cluster.url, self.folder))
        return self.opened[-1]

    @property
    def lease_path(self) -> str:
        return f"{lease.LEASES}/namespaces/{self.name}/leases/{DRIVER}"

    def lease(self, holder: str, lose: Any = None, terms: DriverTerms = lease.TERMS) -> DriverLease:
        return DriverLease(self.api(), self.lease_path, holder, lose or lost_for_nothing, terms)

    def make_lease(self) -> None:
        self._make(self.lease_path.rpartition("/")[0], {"metadata": {"name": DRIVER}})

    def holder(self) -> str:
        """The holder of the Lease."""
        found: str = self._lease()["spec"]["holderIdentity"]
        return found

    def hold(self, holder: str) -> None:
        """Give the Lease to this holder, whichever driver holds it now."""

        def written() -> int:  # the holder may write at the same time
            spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600}
            found = {**self._lease(), "spec": spec}
            return self.cluster.admin.ask("PUT", self.lease_path, found).status

        assert wait_for(written, lambda status: status == 200) == 200

    def make_slice(self, name: str, shares: list[Document]) -> None:
        data = {"assignments.json": json.dumps(shares)}
        body = {"metadata": {"name": name}, "data": data, "immutable": True}
        self._make(self.objects.core("configmaps"), body)

    def publish(self, status: Document) -> None:
        """Publish an assignment as the operator does."""
        self.objects.change("consumergroups", f"{GROUP}/status", {"status": status})

    def report(self) -> Document:
        """The report in the ConfigMap; empty if there is none yet."""
        answer = self.cluster.admin.ask("GET", self.objects.core("configmaps", DRIVER))
        found: Document = json.loads((answer.body.get("data") or {}).get("report.json", "{}"))
        return found

    def _lease(self) -> Document:
        found: Document = self.cluster.admin.ask("GET", self.lease_path).body
        return found

    def _make(self, path: str, body: Document) -> None:
        answer = self.cluster.admin.ask("POST", path, body)
        assert answer.status == 201, answer.body

    def _give_rights(self) -> None:
        self._make(self.objects.core("serviceaccounts"), {"metadata": {"name": DRIVER}})
        rules = [
            {"apiGroups": [group], "resources": [kind], "verbs": verbs, "resourceNames": names}
            for group, kind, verbs, names in RULES
        ]
        rights = f"{RIGHTS}/{self.name}"
        self._make(f"{rights}/roles", {"metadata": {"name": DRIVER}, "rules": rules})
        binding = {
            "metadata": {"name": DRIVER},
            "roleRef": {"kind": "Role", "name": DRIVER, "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "ServiceAccount", "name": DRIVER}],
        }
        self._make(f"{rights}/rolebindings", binding)

    def _credentials(self) -> dict[str, str]:
        account = self.cluster.service_account(self.name, DRIVER)
        config = json.loads(account.kubeconfig.read_text())
        authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
        return {
            "token": config["users"][0]["user"]["token"],
            "ca.crt": base64.b64decode(authority).decode(),
        }


@pytest.fixture
def place(kubernetes: Cluster, tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "credentials"
    folder.mkdir()
    made = Place(kubernetes, f"driver-{next(_numbers)}", folder)
    yield made
    for api in made.opened:
        api.close()


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """An event that ends all waiting for a Lease. If the test does not set it, a timer does."""
    told = threading.Event()
    timer = threading.Timer(PATIENCE_SECONDS, told.set)
    timer.start()
    yield told
    timer.cancel()


def lost_for_nothing(why: str) -> NoReturn:
    pytest.fail(f"the Lease was lost: {why}")


class Ends:
    """Records why a driver would end, instead of ending it."""

    def __init__(self) -> None:
        self.why = ""
        self.told = threading.Event()

    def __call__(self, why: str) -> None:
        self.why = why
        self.told.set()


@contextlib.contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """Freeze an API server: it accepts connections and never answers."""
    pid = cluster.servers["kube-apiserver"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def in_thread(act: Any) -> Iterator[None]:
    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_lease_that_is_given_back_is_taken_at_once_and_one_that_is_held_is_not(
    place: Place, stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """The second driver would wait for an hour if the first one did not release it."""
    caplog.set_level(logging.INFO)
    taken = threading.Event()
    first = place.lease("one", terms=DriverTerms(duration=3600))
    second = place.lease("two", terms=DriverTerms(pause=0.05))
    assert first.take(stop)

    def take() -> None:
        if second.take(stop):
            taken.set()

    with in_thread(take):
        with first.keep():
            text = wait_for(lambda: caplog.text, lambda text: "is held by one" in text)
            assert "is held by one" in text
            assert not taken.is_set()
            assert place.holder() == "one"
        assert taken.wait(PATIENCE_SECONDS)
    assert place.holder() == "two"


def test_of_drivers_that_all_find_the_lease_free_one_gets_it(
    place: Place, stop: threading.Event
) -> None:
    begin, taken = threading.Barrier(4), threading.Semaphore(0)
    holders: list[str] = []

    def take(holder: str) -> None:
        mine = place.lease(holder)
        begin.wait()
        if mine.take(stop):
            holders.append(holder)
            taken.release()

    with contextlib.ExitStack() as threads:
        threads.callback(stop.set)
        for number in range(4):
            threads.enter_context(in_thread(lambda name=f"driver-{number}": take(name)))
        assert taken.acquire(timeout=PATIENCE_SECONDS)
        stop.set()
    assert holders == [place.holder()]


def test_a_lease_that_nobody_renews_is_taken_when_it_was_seen_for_its_duration(
    place: Place, stop: threading.Event
) -> None:
    assert place.lease("one", terms=HASTE).take(stop)
    assert place.lease("two", terms=HASTE).take(stop)
    assert place.holder() == "two"


def test_a_driver_that_sees_another_holder_ends(place: Place, stop: threading.Event) -> None:
    ends = Ends()
    mine = place.lease("one", ends, DriverTerms(period=0.05))
    assert mine.take(stop)
    with mine.keep():
        place.hold("two")
        assert ends.told.wait(PATIENCE_SECONDS)
    assert ends.why == f"two has taken the Lease {place.lease_path}"
    assert place.holder() == "two"


def test_a_driver_whose_api_server_does_not_answer_ends_in_time(
    place: Place, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself, the driver's request would wait for an hour."""
    monkeypatch.setattr(kube, "ANSWER_SECONDS", 3600.0)
    ends = Ends()
    mine = place.lease("one", ends, HASTE)
    assert mine.take(stop)
    with mine.keep(), frozen(place.cluster):
        assert ends.told.wait(PATIENCE_SECONDS)
    assert "could not be renewed for 1 s" in ends.why


def test_a_lease_that_the_operator_has_not_made_yet_is_waited_for(
    place: Place, stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    place.objects.delete(place.lease_path)
    mine = place.lease("one", terms=HASTE)
    with in_thread(lambda: mine.take(stop)):
        text = wait_for(lambda: caplog.text, lambda text: "does not exist yet" in text)
        assert f"the Lease {place.lease_path} does not exist yet" in text
        place.make_lease()
    assert place.holder() == "one"


def test_a_request_beyond_its_rights_says_who_may_not_do_what(place: Place) -> None:
    maps = place.objects.core("configmaps")
    wanted = rf"GET {maps}: HTTP 403: .*{DRIVER}\" cannot list resource \"configmaps\""
    with pytest.raises(kube.KubeError, match=wanted):
        place.api().ask("GET", maps)


def share(consumer: str, ids: str) -> Document:
    queues = [{"topic": "orders", "broker": "broker-a", "ids": ids}]
    return {"consumer": consumer, "queues": queues}


@pytest.fixture
def heard(place: Place, tmp_path: Path) -> Iterator[Any]:
    """A function that waits until the watcher has written an epoch; it returns the assignment."""
    file = tmp_path / "heard.json"
    files = FileAssignments(file, "")
    with AssignmentWatcher(place.api(), place.name, GROUP, file).run_in_thread():
        yield lambda epoch: wait_for(files.read_latest, lambda found: found.epoch == epoch)


def test_what_is_published_is_heard_in_the_status_and_in_slices(place: Place, heard: Any) -> None:
    place.publish({"epoch": 2, "assignments": [share("billing-0", "0-3")]})
    assert heard(2).slots == ("billing-0",)
    for number, name in enumerate(SLICES):
        place.make_slice(name, [share(f"billing-{number}", str(number))])
    place.publish({"epoch": 3, "assignments": [], "slices": list(SLICES)})
    assert heard(3).slots == ("billing-0", "billing-1")


def test_who_is_to_be_drained_is_heard_in_an_annotation(place: Place, heard: Any) -> None:
    place.publish({"epoch": 2, "assignments": [share("billing-0", "0-3")]})
    assert heard(2).drained == frozenset()
    annotations = {"evenkeel.dev/drain": "exec-1, exec-2"}
    place.objects.change("consumergroups", GROUP, {"metadata": {"annotations": annotations}})
    place.publish({"epoch": 3})
    assert sorted(heard(3).drained) == ["exec-1", "exec-2"]


def test_a_watch_that_has_died_is_noticed(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    monkeypatch.setattr(hearing, "SILENCE_SECONDS", 1.0)
    heard = request.getfixturevalue("heard")
    place.publish({"epoch": 1, "assignments": []})
    assert heard(1).epoch == 1
    with frozen(place.cluster):
        text = wait_for(lambda: caplog.text, lambda text: "timed out" in text)
        assert f"ConsumerGroup {place.name}/{GROUP} is read again in" in text
        assert "timed out" in text
    place.publish({"epoch": 2, "assignments": []})
    assert heard(2).epoch == 2


def test_the_pod_of_a_lost_executor_goes_where_no_kubelet_ends_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(overdue, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(overdue, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(overdue, "ORDERLY_SECONDS", 0.0)
    pods = place.objects.core("pods")
    named = {"alive": "1", "busy": "2", "lost": "3"}
    for name, executor in named.items():
        labels = {"evenkeel.dev/group": GROUP, "spark-role": "executor", "spark-exec-id": executor}
        place.objects.pod(name, labels)
    place.objects.pod("strange", {"evenkeel.dev/group": "other", "spark-role": "executor"})

    def there() -> list[str]:
        answer = place.cluster.admin.ask("GET", pods)
        return [each["metadata"]["name"] for each in answer.body["items"]]

    for name in ("busy", "lost", "strange"):
        path = f"{place.objects.core('pods', name)}?gracePeriodSeconds=150"
        assert place.cluster.admin.ask("DELETE", path).status == 200
    assert there() == ["alive", "busy", "lost", "strange"]
    looking = OverduePods(place.api(), place.name, GROUP)
    with looking.run_in_thread():
        looking.follow(named.values())
        looking.follow(["1", "2"])
        assert wait_for(there, lambda names: "lost" not in names) == ["alive", "busy", "strange"]
        hurried, removed = (
            f"pod {place.name}/lost {how}" for how in ("must end now", "is force-deleted")
        )
        said = wait_for(lambda: caplog.text, lambda text: removed in text)
        assert said.index(hurried) < said.index(removed)


java = pytest.mark.skipif(jars.find_java() is None, reason="no Java: RocketMQ cannot run")


class Jobs:
    """Drivers of one group. They share everything except their folder."""

    def __init__(self, place: Place, client: blocking.Client, where: str, topic: str) -> None:
        self._place = place
        self._client = client
        self._where = where
        self._topic = topic
        self._root = place.folder.parent
        self._chooser = RoundRobin()
        self._sent = 0

    def driver(self, holder: str, wanted: int = 1, **parts: Any) -> RunningJob:
        folder = self._root / holder
        folder.mkdir()
        parts = {
            "kubernetes": self._place.kubernetes(holder),
            "assignments": str(folder / "heard.json"),  # not the planner's file
            "checkpoint": str(self._root / "checkpoint"),
            "sink": {"format": "json", "path": str(self._root / "rows")},
            "spark": {**SPARK, "spark.master": "local-cluster[2,1,1024]"},
            **parts,
        }
        return RunningJob(folder, self._client, self._topic, self._where, wanted, parts=parts)

    def publish(self, running: RunningJob, epoch: int) -> None:
        """Publish what the planner of a job has planned."""
        planned = running.folder / "assignment.json"
        wait_for(lambda: running.epoch, lambda found: found == epoch)
        assert running.epoch == epoch
        self._place.publish(json.loads(planned.read_text()))

    def send(self, count: int) -> None:
        for number in range(self._sent, self._sent + count):
            self._client.send([Message(self._topic, b"%d" % number)], self._chooser)
        self._sent += count

    def until_all_are_read(self, running: RunningJob) -> None:
        """Wait until all numbers are read, each of them once."""
        queues = self._client.find_route(self._topic).readable

        def are_committed(_: object) -> bool:
            ends = [self._client.find_committed(running.group, queue) or 0 for queue in queues]
            return sum(ends) == self._sent

        running.wait_until(are_committed)
        done = (self._root / "rows").glob("query=*/batch=*/part-*.json")
        rows = [json.loads(line) for part in done for line in part.read_text().splitlines()]
        assert sorted(int(row["body"]) for row in rows) == list(range(self._sent))


@pytest.fixture
def jobs(place: Place, client: blocking.Client, rocketmq: RocketMq, topic: str) -> Jobs:
    return Jobs(place, client, rocketmq.name_server.address, topic)


@java
def test_a_driver_ends_as_its_job_says_and_leaves_its_last_report_and_the_lease(
    place: Place, jobs: Jobs, tmp_path: Path
) -> None:
    """The error is found after the driver has taken the Lease, before Spark starts."""
    with jobs.driver("one", transform={"file": str(tmp_path / "nowhere.py")}) as running:
        assert running.process.wait(PATIENCE_SECONDS) == PERMANENT, running.log
    report = place.report()
    assert report["driver"] == "one"
    assert "nowhere.py: FileNotFoundError" in report["error"]
    assert place.holder() == ""


@java
def test_a_driver_that_waits_for_another_starts_nothing_and_can_be_stopped(
    place: Place, jobs: Jobs
) -> None:
    place.hold("somebody")
    with jobs.driver("one") as running:
        running.wait_until(lambda _: "is held by somebody" in running.log)
        assert executors.list_session(running.process.pid) == [running.process.pid]
        assert running.end_by(signal.SIGTERM) == TRY_AGAIN
    assert place.holder() == "somebody"
    assert place.report() == {}


@java
def test_a_job_follows_its_group_and_one_driver_takes_over_from_another(
    place: Place, jobs: Jobs
) -> None:
    def until_reported(driver: str, epoch: int, slots: int) -> None:
        def is_so(it: Document) -> bool:
            right = it.get("driver") == driver and it["adoptedEpoch"] == epoch
            return right and len(it["slots"]) == slots

        found = wait_for(place.report, is_so, PATIENCE_SECONDS)
        assert is_so(found), found

    with jobs.driver("one") as first:
        jobs.publish(first, epoch=1)
        first.wait_until_adopted(slots=1)
        until_reported("one", epoch=1, slots=1)

        server = place.cluster.servers["kube-apiserver"]
        server.kill()
        jobs.send(20)
        server.restart()
        first.wanted = 2
        jobs.publish(first, epoch=2)
        first.wait_until_adopted(slots=2)
        until_reported("one", epoch=2, slots=2)
        jobs.until_all_are_read(first)

        with jobs.driver("two", wanted=2) as second:
            second.wait_until(lambda _: "is held by one" in second.log)
            first.end_by(signal.SIGKILL)
            jobs.send(20)
            jobs.until_all_are_read(second)
            until_reported("two", epoch=2, slots=2)

            place.hold("three")
            assert second.process.wait(PATIENCE_SECONDS) == TRY_AGAIN
            assert "the driver ends at once: three has taken the Lease" in second.log
            assert wait_for(lambda: left_of(second), lambda left: not left) == []
    assert place.holder() == "three"


def left_of(running: RunningJob) -> list[int]:
    """List the processes of an ended driver, without those that are just ending."""
    return [
        pid for pid in executors.list_session(running.process.pid) if executors.read_command(pid)
    ]
