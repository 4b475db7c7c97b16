"""
Removes pods of lost executors that do not go by themselves.

Spark deletes the pod of an executor that it has lost, and asks for another one when that pod is
gone. A pod has minutes to end, so that its executor can finish a batch; one whose executor Spark no
longer knows has nothing to finish, and gets seconds. Only the kubelet of its node says that it is
gone, and where the node is lost nobody ever does. So a pod that has had its time and is still there
is removed by force. Its process may live on; it does no harm, for a driver that has lost it commits
nothing of what it writes.
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
from spark_jobs.pipeline.kube import Api, KubeError

log = logging.getLogger("evenkeel.job")
LOOK_SECONDS = 5.0
ALERT_SECONDS = 60.0
"""Spark takes some seconds to delete the pod of an executor that it has lost."""
LATE_SECONDS = 5.0
"""A kubelet that answers may need so much longer than the time that a pod has."""
ORDERLY_SECONDS = 10.0
"""What a pod without a registered executor has, for what else runs in it."""
LAST_SECONDS = 1
"""The shortest time for which a kubelet still says when a pod has ended."""


class _Labels(msgspec.Struct, frozen=True):
    executor: str = msgspec.field(default="", name=names.EXECUTOR_ID_LABEL)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    labels: _Labels = _Labels()
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: float = 0


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _Pods(msgspec.Struct, frozen=True):
    items: list[_Pod] = []


class Overdue:
    """The pods of one group's executors."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        """Look at nothing: no executor is lost yet."""
        self._api = api
        self._namespace = namespace
        self._only = urlencode({"labelSelector": names.select_executors(name)})
        self._executors: frozenset[str] = frozenset()
        self._alert_until = 0.0
        self._ending_since: dict[str, float] = {}
        """By uid, on this machine's clock: the API server's may differ."""
        self._over = threading.Event()

    def follow(self, registered: Iterable[str]) -> None:
        """Hear which executors Spark has. When one is missing, pods are looked at for a while."""
        executors = frozenset(registered)
        if self._executors - executors:
            self._alert_until = time.monotonic() + ALERT_SECONDS
        self._executors = executors

    @contextmanager
    def kept_up(self) -> Iterator[None]:
        """Look in a thread of its own, until left."""
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
                log.warning("pods that may be overdue are looked at again soon: %s", error)

    def look(self, now: float) -> None:
        """Hurry the pods that have nothing to finish; remove those that have had their time."""
        answer = self._api.ask("GET", f"{self._path()}?{self._only}")
        pods = [pod.metadata for pod in msgspec.convert(answer, _Pods).items]
        ending = [pod for pod in pods if pod.deletion_timestamp is not None]
        self._ending_since = {pod.uid: self._ending_since.get(pod.uid, now) for pod in ending}
        for pod in ending:
            passed = now - self._ending_since[pod.uid]
            if passed > pod.deletion_grace_period_seconds + LATE_SECONDS:
                self._delete(pod, 0)
                log.warning("%s is removed by force: it has had its time to end", self._named(pod))
            elif passed > ORDERLY_SECONDS and pod.labels.executor not in self._executors:
                self._delete(pod, LAST_SECONDS)
                log.warning("%s is to end now: Spark has lost its executor", self._named(pod))

    def _delete(self, pod: _Metadata, grace: int) -> None:
        how = {"gracePeriodSeconds": grace, "preconditions": {"uid": pod.uid}}
        self._api.ask("DELETE", self._path(pod.name), how)

    def _named(self, pod: _Metadata) -> str:
        return f"pod {self._namespace}/{pod.name}"

    def _path(self, name: str = "") -> str:
        return kube.url_path("/api/v1", self._namespace, "pods", name)
