"""A job on a real API server; the test says of its pods what a kubelet would."""

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
        "allowForeignConsumers": True,  # no broker is there that could tell who reads
    }
    return {"topics": [{"name": "orders"}], "job": {**of_job, **fields}}


class Kubelet:
    """Says what becomes of the pods of one job."""

    def __init__(self, namespace: Namespace) -> None:
        """Say nothing yet."""
        self._namespace = namespace

    def driver(self, *, but: str = "") -> str:
        """Wait for the driver's pod, another than this one; its uid."""
        found = wait_for(
            lambda: self._namespace.found(self._namespace.core("pods", DRIVER)),
            lambda it: it is not None and it["metadata"]["uid"] != but,
        )
        assert found is not None
        uid: str = found["metadata"]["uid"]
        assert uid != but
        return uid

    def runs(self) -> None:
        """The driver's pod runs."""
        self._namespace.set_ready(DRIVER, "True")

    def ended(self, code: int, *, seconds: int = 5) -> None:
        """The driver's container has ended."""
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
        """Nobody hears of the driver's node: the cluster takes back that its pod is ready."""
        conditions = [
            {"type": "Ready", "status": "False"},
            {"type": "ContainersReady", "status": "True"},
        ]
        self._namespace.set_status(DRIVER, {"phase": "Running", "conditions": conditions})

    def holds_lease(self, driver: str, seconds: int) -> None:
        """The driver has its Lease, and does not renew it."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace.name}/leases/{DRIVER}"
        held = {"holderIdentity": driver, "leaseDurationSeconds": seconds}
        self._namespace.patch(path, {"spec": held})

    def lost(self) -> None:
        """The driver's pod is given up with its node; of the container nobody knows."""
        self._namespace.set_status(DRIVER, {"phase": "Failed", "reason": "NodeLost"})

    def executor(self, number: str, driver: str) -> str:
        """An executor's pod, as Spark makes it; its name."""
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
        """The driver says who fills which slot."""
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
