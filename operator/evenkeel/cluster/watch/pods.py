"""Reads pods, and finds those that are consumers. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evenkeel.cluster.watch import driver_pods
from evenkeel.control.jobs.states import DriverSeen
from evenkeel.objects import Key
from lb_core.model import Member

ZONE = "topology.kubernetes.io/zone"
OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Pod:
    """The cached part of a pod."""

    key: Key
    labels: Mapping[str, str]
    node: str
    uid: str
    owner: str
    """The uid of its first owner."""
    is_ready: bool
    is_going: bool
    """Whether it has ended or is being deleted."""
    has_ended: bool
    waits: str
    """Why it does not start, if there is a problem."""
    driver: DriverSeen | None
    """The driver that runs in it, if it is a driver's pod."""
    gone_before: str
    """Processes that began before this time have ended; empty if a container has never ended."""


def read(body: Mapping[str, Any]) -> Pod:
    """Read a pod from the API server's document."""
    metadata, status = body["metadata"], body.get("status") or {}
    phase = status.get("phase")
    is_going = "deletionTimestamp" in metadata or phase in OVER
    found = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    owners = metadata.get("ownerReferences") or [{"uid": ""}]
    return Pod(
        Key(metadata["namespace"], metadata["name"]),
        dict(metadata.get("labels") or {}),
        (body.get("spec") or {}).get("nodeName") or "",
        metadata.get("uid", ""),
        owners[0]["uid"],
        is_ready=found.get("Ready") == "True" and phase == "Running" and not is_going,
        is_going=is_going,
        has_ended=phase in OVER,
        waits="" if is_going or phase == "Running" else driver_pods.explain_waiting(status),
        driver=driver_pods.read(body),
        gone_before=_find_gone_before(status),
    )


def _find_gone_before(status: Mapping[str, Any]) -> str:
    """
    Find the time, by the kubelet's clock, before which no running process can have begun.

    It is not known in which container a process runs. So this is the earliest of the times at which
    the containers last ended.
    """
    ends = [_find_last_end(each) for each in status.get("containerStatuses") or ()]
    return min(ends, default="")


def _find_last_end(container: Mapping[str, Any]) -> str:
    """Find when a container last ended, even if it runs again; empty if it has never ended."""
    states = (container.get(name) or {} for name in ("state", "lastState"))
    return max((each.get("terminated") or {}).get("finishedAt") or "" for each in states)


def list_members(found: Iterable[Pod], zone: Callable[[str], str | None]) -> list[Member]:
    """List the ready pods as members, each in its node's zone."""
    return [Member(pod.key.name, zone(pod.node)) for pod in found if pod.is_ready]
