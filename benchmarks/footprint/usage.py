"""Reads the usage of containers from the kubelet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox import process
from sandbox.kubernetes_users import ApiUser
from sandbox.node import servers
from sandbox.waiting import wait_for

MIB = 2**20
_SUMMARY = f"/api/v1/nodes/{servers.NAME}/proxy/stats/summary"
_PATIENCE_SECONDS = 60.0
"""How much longer to wait for a sample: the kubelet measures only about every ten seconds."""
_LOOK_SECONDS = 5.0
"""The pause between two requests. More frequent requests would cause load themselves."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a pod's first container."""

    at: float
    """When the kubelet took the sample."""
    seconds: float
    """Processor time since the container started."""
    memory: float
    """The working set in MiB."""


@dataclass(frozen=True, slots=True)
class Use:
    """The usage of a pod between two samples."""

    cores: float
    memory: float
    """The memory in MiB at the second sample."""


def take_samples(admin: ApiUser) -> dict[str, Sample]:
    """Take a sample of each pod, by name."""
    return dict(_read_samples(admin.ask("GET", _SUMMARY).body["pods"]))


def later(admin: ApiUser, before: Mapping[str, Sample], seconds: float) -> dict[str, Use]:
    """Measure the usage of these pods since `before`, for at least `seconds`."""

    def is_late(now: Mapping[str, Sample]) -> bool:
        return all(name in now and now[name].at - before[name].at >= seconds for name in before)

    found = wait_for(
        lambda: take_samples(admin), is_late, seconds + _PATIENCE_SECONDS, _LOOK_SECONDS
    )
    if not is_late(found):
        raise process.SandboxError(
            f"the kubelet does not report the usage of these pods: {', '.join(before)}; "
            "one of them may have been replaced meanwhile"
        )
    return {
        name: Use(
            (found[name].seconds - first.seconds) / (found[name].at - first.at),
            found[name].memory,
        )
        for name, first in before.items()
    }


def _read_samples(pods: list[dict[str, Any]]) -> Iterator[tuple[str, Sample]]:
    for pod in pods:
        first: dict[str, Any] = next(iter(pod.get("containers") or []), {})
        if "usageCoreNanoSeconds" in first.get("cpu", {}):
            cpu = first["cpu"]
            at = datetime.fromisoformat(cpu["time"]).timestamp()
            memory = first["memory"]["workingSetBytes"] / MIB
            yield pod["podRef"]["name"], Sample(at, cpu["usageCoreNanoSeconds"] / 1e9, memory)
