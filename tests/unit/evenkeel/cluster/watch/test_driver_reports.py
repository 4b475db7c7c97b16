"""How the operator reads the reports of a job's driver."""

import json
from dataclasses import replace
from typing import Any

import pytest

from contract.report import SkipReport
from evenkeel.cluster.watch import driver_reports, pods
from evenkeel.control.jobs.states import DriverSeen, DriverState

UID = "driver-1"
SKIPPED = {"value": "monday", "messages": 39, "lost": "orders@broker-a 0: 39 messages"}
ENDED = {"state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}}}


def with_report(status: dict[str, Any], driver: str = UID) -> DriverSeen:
    labels = {"evenkeel.dev/group": "billing", "spark-role": "driver"}
    metadata = {"namespace": "mq", "name": "billing-driver", "uid": UID, "labels": labels}
    pod = pods.read({"metadata": metadata, "status": status})
    facts = {"adoptedEpoch": 3, "slots": {}, "pinned": True, "error": None, "skipped": SKIPPED}
    return driver_reports.add_report(
        pod, json.dumps({"driver": driver, **facts}), [], lambda node: None
    )


def test_what_a_job_has_passed_over_is_heard_also_when_it_has_ended_since() -> None:
    """A scheduled run may end at once after it has skipped messages."""
    running = with_report({"phase": "Running"})
    ended = with_report({"phase": "Succeeded", "containerStatuses": [{"name": "main", **ENDED}]})
    assert (running.state, ended.state) == (DriverState.RUNNING, DriverState.ENDED)
    assert running.skipped == ended.skipped == SkipReport(**SKIPPED)  # type: ignore[arg-type]


def test_what_an_earlier_driver_has_passed_over_is_not_this_one_s() -> None:
    assert with_report({"phase": "Running"}, driver="driver-0").skipped is None


def told_to_end(number: int) -> pods.Pod:
    found = executor(number, phase="Running")
    return replace(found, is_going=True, is_ready=False)


def test_executors_whose_pods_have_not_failed_and_that_fill_no_slot_are_on_their_way() -> None:
    labels = {"evenkeel.dev/group": "billing", "spark-role": "driver"}
    metadata = {"namespace": "mq", "name": "billing-driver", "uid": UID, "labels": labels}
    driver = pods.read({"metadata": metadata, "status": {"phase": "Running"}})
    found = [
        executor(1, phase="Running"),
        executor(2, phase="Running"),
        executor(3, phase="Pending"),
        executor(4, phase="Failed"),
        executor(5, "another-driver", phase="Pending"),
        told_to_end(6),
    ]
    slots = {"billing-0": {"executor": "1"}, "billing-1": {"executor": "6"}}
    seated = {"driver": UID, "slots": slots}
    seen = driver_reports.add_report(driver, json.dumps(seated), found, lambda node: None)
    assert seen.report is not None
    assert seen.report.slots.keys() == {"billing-0"}
    assert seen.report.coming == {"2", "3", "6"}, "the last executor ends when its batch is done"


NO_NODE = [{"type": "PodScheduled", "status": "False", "message": "too few cores"}]
NO_IMAGE = [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]


def executor(number: int, owner: str = UID, **status: Any) -> pods.Pod:
    labels = {"spark-role": "executor", "spark-exec-id": str(number)}
    owners = [{"uid": owner}]
    metadata = {"namespace": "mq", "name": f"exec-{number}", "uid": "", "labels": labels}
    return pods.read({"metadata": {**metadata, "ownerReferences": owners}, "status": status})


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"conditions": NO_NODE}, "has no node: too few cores"),
        ({"containerStatuses": NO_IMAGE}, "does not start: ErrImagePull: no"),
    ],
)
@pytest.mark.parametrize("text", [None, "{}"], ids=["no report", "of another driver"])
def test_why_an_executor_does_not_run_is_told(
    status: dict[str, Any], told: str, text: str | None
) -> None:
    labels = {"evenkeel.dev/group": "billing", "spark-role": "driver"}
    metadata = {"namespace": "mq", "name": "billing-driver", "uid": UID, "labels": labels}
    driver = pods.read({"metadata": metadata, "status": {"phase": "Running"}})
    found = [executor(1, phase="Running"), executor(2, phase="Pending", **status)]
    seen = driver_reports.add_report(driver, text, found, lambda node: None)
    assert seen.message == f"executor exec-2 {told}"
    others = [executor(2, "driver-0", phase="Pending", **status), executor(3, phase="Pending")]
    assert driver_reports.add_report(driver, text, others, lambda node: None).message == ""
