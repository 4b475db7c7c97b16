"""A driver whose loop hangs ends, although its other threads go on."""

import threading
from pathlib import Path

import pytest

from contract.job_file import JobCluster
from contract.report import DriverReport
from spark_jobs.pipeline import in_cluster, job, lease
from spark_jobs.pipeline.alive import FIRST_SECONDS, LIMIT_SECONDS, LoopWatchdog
from spark_jobs.pipeline.kube import JSON, KubeApi
from tests.pinned_jobs import described

WAIT_SECONDS = 60.0


class Cluster(KubeApi):
    """An API server with a free Lease, and a group without an assignment."""

    def __init__(self, *_: object) -> None:
        super().__init__("https://nowhere", Path())
        self.renewed = threading.Event()

    def ask(self, method: str, path: str, body: object = None, media_type: str = JSON) -> object:
        if "/leases/" not in path:
            return {}
        if method == "PUT":
            self.renewed.set()
            return body
        return {"metadata": {}, "spec": {}}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_sign_gives_the_loop_its_whole_time_again() -> None:
    clock = Clock()
    alive = LoopWatchdog(lambda why: None, clock=clock)
    clock.now = 200.0
    assert alive.seconds_left == FIRST_SECONDS - 200, "Spark starts"
    alive.note_turn()
    clock.now += 10
    assert alive.seconds_left == LIMIT_SECONDS - 10
    alive.note_turn()
    assert alive.seconds_left == LIMIT_SECONDS
    clock.now += LIMIT_SECONDS + 1
    assert alive.seconds_left == 0


def test_a_loop_without_a_sign_ends_its_driver_and_says_why() -> None:
    ended, said = threading.Event(), list[str]()

    def end(why: str) -> None:
        said.append(why)
        ended.set()

    with LoopWatchdog(end, first=0.01).run_in_thread():
        assert ended.wait(WAIT_SECONDS)
    assert said == ["its loop has begun no turn for 0.01 s"]


def test_a_driver_that_is_done_is_not_ended() -> None:
    clock, said = Clock(), list[str]()
    alive = LoopWatchdog(said.append, first=10, clock=clock)
    with alive.run_in_thread():
        pass
    clock.now = 20
    assert said == []


def test_a_hung_driver_does_not_keep_its_lease(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Other threads of the driver renew the Lease. The driver ends because its loop hangs."""
    ended = threading.Event()
    monkeypatch.setattr(in_cluster, "KubeApi", Cluster)
    monkeypatch.setattr(lease, "end_at_once", lambda why: ended.set())
    monkeypatch.setattr(in_cluster, "LoopWatchdog", lambda end: LoopWatchdog(end, limit=0.2))
    where = JobCluster("mq", "billing", holder="me")
    wanted = job.load(described(tmp_path))
    with in_cluster.become_only_driver(wanted, where, threading.Event()) as found:
        assert found is not None
        found.report(DriverReport(batch=0))
        assert ended.wait(WAIT_SECONDS)
