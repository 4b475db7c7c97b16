"""Drivers from which the operator hears nothing, for example because their node is lost."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from evenkeel.cluster.api.api_client import Api, Document
from evenkeel.cluster.api.api_errors import ConflictError, NotFoundError
from evenkeel.cluster.drivers.lease_expiry import LeaseExpiry
from evenkeel.cluster.watch import driver_pods
from evenkeel.control.jobs import driver_actions
from evenkeel.control.jobs.driver_actions import Action
from evenkeel.control.jobs.states import DriverSeen, DriverState, JobState, Report, SlotExecutor
from tests.job_objects import a_group

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
UP = Report(1, {"billing-0": SlotExecutor("0")}, True)
LABELS = {"evenkeel.dev/group": "billing", "spark-role": "driver"}


def ready(status: str, inside: str = "True", **more: str) -> list[dict[str, str]]:
    return [
        {"type": "Ready", "status": status, **more},
        {"type": "ContainersReady", "status": inside},
    ]


def read(status: dict[str, Any], **metadata: Any) -> DriverSeen:
    found = driver_pods.read({"metadata": {"labels": LABELS, **metadata}, "status": status})
    assert found is not None
    return found


# --- the state of pods


@pytest.mark.parametrize(
    ("status", "is_silent"),
    [
        ({"phase": "Running", "conditions": ready("True")}, False),
        ({"phase": "Running", "conditions": ready("False")}, True),
        ({"phase": "Running", "conditions": ready("Unknown")}, True),
        ({"phase": "Unknown"}, True),
        ({"phase": "Running", "conditions": ready("False", "False")}, False),
        (
            {"phase": "Running", "conditions": ready("False", reason="ReadinessGatesNotReady")},
            False,
        ),
        ({"phase": "Running"}, False),
    ],
    ids=["well", "node lost", "node unknown", "phase unknown", "sidecar", "gate", "just made"],
)
def test_a_lost_node_shows_in_its_pod(status: dict[str, Any], is_silent: bool) -> None:
    found = read(status)
    assert (found.state, found.is_silent) == (DriverState.RUNNING, is_silent)


def test_a_pod_that_is_told_to_end_tells_by_when() -> None:
    found = read({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:30Z")
    assert (found.state, found.ends_by) == (DriverState.STOPPING, "2026-01-01T00:00:30Z")


# --- decisions about the driver


def running(**more: Any) -> DriverSeen:
    return DriverSeen(DriverState.RUNNING, "a", report=UP, **more)


@pytest.mark.parametrize("wanted", ["a", "b", None], ids=["as it is", "another", "none"])
def test_a_driver_that_nobody_tells_of_is_given_up(wanted: str | None) -> None:
    drive = driver_actions.decide(running(is_silent=True), wanted, None, NOW)
    assert drive.action is Action.GIVE_UP
    assert drive.job.state is JobState.BACKING_OFF, "so that the alert on jobs fires"
    assert drive.job.report == UP, "its slots stay as they are"
    assert drive.look_again_seconds == driver_actions.GIVE_UP_SECONDS


def test_one_that_should_have_ended_is_given_up_when_its_kubelet_is_late() -> None:
    ends_by = (NOW - timedelta(seconds=9)).isoformat()
    stopping = replace(running(ends_by=ends_by), state=DriverState.STOPPING)
    still = driver_actions.decide(stopping, "a", None, NOW)
    assert (still.action, still.look_again_seconds) == (Action.NOTHING, 1.0)
    late = driver_actions.decide(stopping, "a", None, NOW + timedelta(seconds=1))
    assert late.action is Action.GIVE_UP


def test_a_driver_that_is_seen_to_have_ended_is_not_given_up() -> None:
    status = {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "main",
                "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}},
            }
        ],
    }
    ended = read(status, deletionTimestamp="2026-01-01T00:00:30Z")
    assert driver_actions.decide(ended, "a", None, NOW).action is Action.NOTHING


# --- when a driver is certainly dead


class ScriptedLeases:
    """The Lease of one group, as the API server has it."""

    def __init__(self, holder: str = "pod-1", duration: int | None = 30) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": duration}
        self.found: Document | None = {"metadata": {"resourceVersion": "1"}, "spec": spec}
        self.renews_before_write = False

    async def get(self, path: str) -> Document:
        assert path.endswith("/namespaces/shop/leases/billing-driver")
        if self.found is None:
            raise NotFoundError("it is gone")
        return self.found

    async def replace(self, path: str, document: Document) -> Document:
        if self.renews_before_write:
            raise ConflictError("another version")
        self.found = document
        return document

    def renew(self, version: str) -> None:
        assert self.found is not None
        self.found = {**self.found, "metadata": {"resourceVersion": version}}


class Watch:
    """Asks for Leases at times that the test chooses."""

    def __init__(self, leases: ScriptedLeases) -> None:
        self._now = 0.0
        self._expiry = LeaseExpiry(cast("Api", leases), lambda: self._now)

    def at(self, seconds: float, holder: str = "pod-1") -> bool:
        self._now = seconds
        return asyncio.run(self._expiry.take_back(a_group(), holder))


def test_a_lease_is_taken_back_when_it_was_seen_unchanged_for_as_long_as_it_holds() -> None:
    leases = ScriptedLeases()
    watch = Watch(leases)
    assert [watch.at(seconds) for seconds in (0, 5, 29)] == [False, False, False]
    leases.renew("2")
    assert [watch.at(seconds) for seconds in (30, 59)] == [False, False]
    assert watch.at(60)
    assert leases.found is not None
    assert leases.found["spec"]["holderIdentity"] == ""


def test_a_lease_that_is_renewed_at_the_last_moment_stays() -> None:
    leases = ScriptedLeases()
    watch = Watch(leases)
    watch.at(0)
    leases.renews_before_write = True
    assert not watch.at(31)


def test_a_driver_without_the_lease_reads_nothing() -> None:
    assert Watch(ScriptedLeases(holder="")).at(0)
    assert Watch(ScriptedLeases(holder="pod-2")).at(0)


def test_a_lease_that_is_gone_or_says_no_time_holds_for_half_a_minute() -> None:
    gone = ScriptedLeases()
    gone.found = None
    for leases in (gone, ScriptedLeases(duration=None)):
        watch = Watch(leases)
        assert [watch.at(seconds) for seconds in (0, 29, 30)] == [False, False, True]


def test_another_driver_has_its_own_time() -> None:
    leases = ScriptedLeases()
    watch = Watch(leases)
    watch.at(0)
    leases.found = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "pod-2"}}
    assert not watch.at(31, "pod-2")
