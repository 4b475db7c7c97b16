"""
Deletes the pods of lost executors that do not end by themselves.

Spark deletes the pod of an executor that it has lost, and requests another executor when that pod
is gone. A pod has minutes to end, so that its executor can finish a batch. If Spark no longer knows
the executor, there is nothing to finish, so this module gives the pod seconds. Only the kubelet
of a pod's node reports that the pod is gone. If the node is lost, this report never comes. So this
module force-deletes a pod that exceeds its grace period. The pod's process may still run, but does
no harm, because the driver commits nothing that a lost executor writes.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import msgspec

from contract import names
from spark_jobs.pipeline import kube
from spark_jobs.pipeline.kube import KubeApi, KubeError

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 5.0
ALERT_SECONDS = 60.0
"""How long pods are checked after a loss: Spark takes some seconds to delete a lost pod."""
LATE_SECONDS = 5.0
"""By how much a working kubelet may exceed the grace period of a pod."""
ORDERLY_SECONDS = 10.0
"""How long a pod with a lost executor may take to end: it may have other containers."""
LAST_SECONDS = 1
"""The shortest grace period for which a kubelet still reports the end of a pod."""


class _PodLabels(msgspec.Struct, frozen=True):
    executor: str = msgspec.field(default="", name=names.EXECUTOR_ID_LABEL)


class _PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    labels: _PodLabels = _PodLabels()
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: float = 0


class _ExecutorPod(msgspec.Struct, frozen=True):
    metadata: _PodMetadata


class _ExecutorPods(msgspec.Struct, frozen=True):
    items: list[_ExecutorPod] = []


class OverduePods:
    """Watches for overdue pods among one group's executors."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        """Begin without a lost executor, so that no pods are listed."""
        self._api = api
        self._namespace = namespace
        self._only = urlencode({"labelSelector": names.select_executors(name)})
        self._executors: frozenset[str] = frozenset()
        self._alert_until = 0.0
        self._ending_since: dict[str, float] = {}
        """When each ending pod was first seen, by uid, in seconds of this machine's clock."""
        self._over = threading.Event()

    def follow(self, registered: Iterable[str]) -> None:
        """Note which executors Spark has. If one has disappeared, check pods for a while."""
        executors = frozenset(registered)
        if self._executors - executors:
            self._alert_until = time.monotonic() + ALERT_SECONDS
        self._executors = executors

    @contextmanager
    def run_in_thread(self) -> Iterator[None]:
        """Check in a separate thread until the block ends."""
        threading.Thread(target=self._keep_looking, name="overdue", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _keep_looking(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if time.monotonic() > self._alert_until and not self._ending_since:
                continue
            try:
                self.look(time.monotonic())
            except (KubeError, msgspec.MsgspecError) as error:
                log.warning("overdue pods cannot be checked for now: %s", error)

    def look(self, now: float) -> None:
        """Give pods with nothing to finish less time. Force-delete pods whose time is over."""
        answer = self._api.ask("GET", f"{self._make_path()}?{self._only}")
        pods = [pod.metadata for pod in msgspec.convert(answer, _ExecutorPods).items]
        ending = [pod for pod in pods if pod.deletion_timestamp is not None]
        self._ending_since = {pod.uid: self._ending_since.get(pod.uid, now) for pod in ending}
        for pod in ending:
            passed = now - self._ending_since[pod.uid]
            if passed > pod.deletion_grace_period_seconds + LATE_SECONDS:
                self._delete(pod, 0)
                log.warning("%s is force-deleted: its grace period is over", self._describe(pod))
            elif passed > ORDERLY_SECONDS and pod.labels.executor not in self._executors:
                self._delete(pod, LAST_SECONDS)
                log.warning("%s must end now: Spark has lost its executor", self._describe(pod))

    def _delete(self, pod: _PodMetadata, grace: int) -> None:
        how = {"gracePeriodSeconds": grace, "preconditions": {"uid": pod.uid}}
        self._api.ask("DELETE", self._make_path(pod.name), how)

    def _describe(self, pod: _PodMetadata) -> str:
        return f"pod {self._namespace}/{pod.name}"

    def _make_path(self, name: str = "") -> str:
        return kube.build_path("/api/v1", self._namespace, "pods", name)
