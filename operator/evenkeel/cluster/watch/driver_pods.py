"""Reads the state of a job's driver from its pod. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from contract.names import ASKED_HASH, DRIVER, GROUP_LABEL, RESTART_HASH, ROLE_LABEL
from evenkeel.cluster.manifest import pod_templates
from evenkeel.control.jobs.states import DriverSeen, DriverState, Ending

Body = Mapping[str, Any]
KILLED = 137
"""The exit code that is assumed if the real one is unknown."""
LOST = "ContainerStatusUnknown"
"""The reason that a kubelet gives for a container that it can no longer find."""
GATES = "ReadinessGatesNotReady"
"""The reason that a kubelet gives for a pod that waits for its readiness gates."""


def read(body: Body) -> DriverSeen | None:
    """Read a driver's pod; None for all other pods."""
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(ROLE_LABEL) != DRIVER or GROUP_LABEL not in labels:
        return None
    annotations = metadata.get("annotations") or {}
    identity = annotations.get(RESTART_HASH, "")
    status = body.get("status") or {}
    ending = _read_ending(status)
    if ending is not None:
        found = DriverSeen(DriverState.ENDED, identity, ending=ending)
    elif "deletionTimestamp" in metadata:
        ends_by = metadata["deletionTimestamp"]
        found = DriverSeen(DriverState.STOPPING, identity, ends_by=ends_by)
    elif status.get("phase") in ("Running", "Unknown"):
        found = DriverSeen(DriverState.RUNNING, identity, is_silent=_is_silent(status))
    else:
        waits = explain_waiting(status)
        text = f"the driver's pod {waits}" if waits else ""
        found = DriverSeen(DriverState.STARTING, identity, message=text)
    wish = annotations.get(ASKED_HASH, "")
    return replace(found, image=_find_image(body.get("spec") or {}), asked=wish)


def _find_image(spec: Body) -> str:
    """Find the image of the main container."""
    found = (
        each for each in spec.get("containers") or () if each["name"] == pod_templates.CONTAINER
    )
    return next((each.get("image") or "" for each in found), "")


def _is_silent(status: Body) -> bool:
    """
    Whether the pod's node no longer answers.

    If so, the control plane has set Ready to False or Unknown, but ContainersReady still has
    the value that the kubelet wrote.
    """
    if status.get("phase") == "Unknown":
        return True
    found = {each["type"]: each for each in status.get("conditions") or ()}
    ready, inside = found.get("Ready") or {}, found.get("ContainersReady") or {}
    is_taken_back = ready.get("status") in ("False", "Unknown") and inside.get("status") == "True"
    return is_taken_back and ready.get("reason") != GATES


def _read_ending(status: Body) -> Ending | None:
    """Read how the main container ended or, if that is unknown, the pod; None if it still runs."""
    ended: Body = _find_state(status).get("terminated") or {}
    if not ended and status.get("phase") not in ("Succeeded", "Failed"):
        return None
    at = ended.get("finishedAt") or status.get("startTime") or ""
    code = ended.get("exitCode", 0 if status["phase"] == "Succeeded" else KILLED)
    reason = ended.get("reason") or status.get("reason") or "it has ended"
    message = ended.get("message") or status.get("message") or ""
    said = f"the driver's pod: {reason}, exit code {code}" + (f": {message}" if message else "")
    return Ending(
        code,
        at,
        _measure_run(ended.get("startedAt"), at),
        "" if code == 0 else said,
        is_certain=bool(ended) and ended.get("reason") != LOST,
    )


def _find_state(status: Body) -> Body:
    """Find the state of the main container."""
    for each in status.get("containerStatuses") or ():
        if each["name"] == pod_templates.CONTAINER:
            found: Body = each.get("state") or {}
            return found
    return {}


def _measure_run(begun: str | None, ended: str) -> float:
    if not begun or not ended:
        return 0.0
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds()


def explain_waiting(status: Body) -> str:
    """Explain what a pending pod waits for, in the words of the kubelet and the scheduler."""
    for each in status.get("containerStatuses") or ():
        found = (each.get("state") or {}).get("waiting") or {}
        if found.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return f"does not start: {found['reason']}: {found.get('message', '')}".strip(": ")
    for each in status.get("conditions") or ():
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return f"has no node: {each.get('message', each.get('reason', ''))}"
    return ""
