"""Builds a job on a real API server, and sets the status of its pods as a kubelet would."""

import json

from sandbox.statuses import Document, read_condition
from sandbox.waiting import wait_for
from tests.real.cluster.running import Namespace

ROUTE = [{"broker": "broker-a", "readQueues": 8, "writeQueues": 8}]
GROUPS = "consumergroups"
DRIVER = "billing-driver"


def job(**fields: object) -> Document:
    of_job = {
        "image": "example/spark:1",
        "executors": 2,
        "sink": {"format": "noop"},
        "checkpoint": {"persistentVolumeClaim": "billing-state"},
        "allowForeignConsumers": True,  # there is no broker that could list other readers
    }
    return {"topics": [{"name": "orders"}], "job": {**of_job, **fields}}


class Kubelet:
    """Sets the status of the pods of one job, as a kubelet would."""

    def __init__(self, namespace: Namespace) -> None:
        """Set no status yet."""
        self._namespace = namespace

    def driver(self, *, but: str = "") -> str:
        """Wait for a driver's pod whose uid is not `but`; return the pod's uid."""
        found = wait_for(
            lambda: self._namespace.found(self._namespace.core("pods", DRIVER)),
            lambda it: it is not None and it["metadata"]["uid"] != but,
        )
        assert found is not None
        uid: str = found["metadata"]["uid"]
        assert uid != but
        return uid

    def runs(self) -> None:
        """Report that the driver's pod runs."""
        self._namespace.set_ready(DRIVER, "True")

    def ended(self, code: int, *, seconds: int = 5) -> None:
        """Report that the driver's container has ended."""
        ended = {
            "exitCode": code,
            "reason": "Error",
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": f"2026-01-01T00:00:{seconds:02}Z",
        }
        container = {"name": "main", "image": "x", "imageID": "", "restartCount": 0, "ready": False}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{**container, "state": {"terminated": ended}}],
        }
        self._namespace.set_status(DRIVER, status)

    def is_cut_off(self) -> None:
        """Report the driver's pod as unready, as a cluster does when a node is silent."""
        conditions = [
            {"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": "True"},
        ]
        self._namespace.set_status(DRIVER, {"phase": "Running", "conditions": conditions})

    def holds_lease(self, driver: str, seconds: int) -> None:
        """Write into the Lease that this driver holds it. Nothing renews the Lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace.name}/leases/{DRIVER}"
        held = {"holderIdentity": driver, "leaseDurationSeconds": seconds}
        self._namespace.patch(path, {"spec": held})

    def lost(self) -> None:
        """Report the driver's pod as lost with its node; its container's state is unknown."""
        self._namespace.set_status(DRIVER, {"phase": "Failed", "reason": "NodeLost"})

    def executor(self, number: str, driver: str) -> str:
        """Make an executor's pod as Spark does, and return its name."""
        labels = {
            "evenkeel.dev/group": "billing",
            "spark-role": "executor",
            "spark-exec-id": number,
        }
        owner = {"apiVersion": "v1", "kind": "Pod", "name": DRIVER, "uid": driver}
        name = f"billing-{driver[:5]}-exec-{number}"
        self._namespace.pod(name, labels, owner)
        return name

    def reports(self, driver: str, adopted: int, *executors: str, error: str | None = None) -> None:
        """Write a driver's report that says which executors fill the slots."""
        slots = {
            f"billing-{place}": {"executor": number, "host": "10.0.0.1"}
            for place, number in enumerate(executors)
        }
        facts = {"adoptedEpoch": adopted, "slots": slots, "pinned": True, "error": error}
        report = {"driver": driver, **facts}
        self._namespace.patch(
            self._namespace.core("configmaps", DRIVER),
            {"data": {"report.json": json.dumps(report)}},
        )


def is_running(status: Document) -> bool:
    return read_condition(status, "Ready") == ("True", "Running")
