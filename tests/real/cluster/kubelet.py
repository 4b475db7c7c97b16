"""
Runs the driver pods of one namespace as processes on this machine, with real Spark.

It acts as a node does: it starts a new driver pod, reports that the pod runs, creates pods for the
driver's executors, and ends the driver when its pod is deleted. Then it removes the pod.
"""

import base64
import contextlib
import json
import sys
import threading
from pathlib import Path
from typing import Self

import msgspec

from contract import job_file, names
from sandbox import archive, ports, process
from sandbox.jobs import SPARK
from sandbox.kubernetes import Cluster
from sandbox.statuses import Document
from tests.real.cluster.running import Namespace

ROOT = Path(__file__).parents[3]
LOOK_SECONDS = 0.3
STOP_SECONDS = 60.0
DRIVER, EXECUTOR = "spark-role=driver", "spark-role=executor"


class Kubelet:
    """Checks the pods repeatedly. If a check fails, the end of the context raises the error."""

    def __init__(self, cluster: Cluster, namespace: Namespace) -> None:
        """Start nothing yet."""
        self._cluster = cluster
        self._namespace = namespace
        self._folder = process.Folder("evenkeel-kubelet-")
        self._running: dict[str, process.ChildProcess] = {}
        self._claims: list[ports.PortClaim] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking)
        self._trouble: Exception | None = None
        self.started = 0
        """How many drivers were started."""

    def __enter__(self) -> Self:
        """Begin to check pods."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all drivers."""
        self._done.set()
        self._thread.join()
        for each in self._running.values():
            sys.stdout.write(each.log.read_text(errors="replace")[-4000:])
        self._folder.close()
        for claim in self._claims:
            claim.release()
        if self._trouble is not None:
            raise self._trouble

    def _keep_looking(self) -> None:
        try:
            while not self._done.wait(LOOK_SECONDS):
                for pod in self._pods(DRIVER):
                    self._look(pod)
        except Exception as error:  # noqa: BLE001 it is raised where the test sees it
            self._trouble = error

    def _look(self, pod: Document) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            if uid in self._running:
                self._running.pop(uid).stop(STOP_SECONDS)
            self._remove_executors(uid)
            self._namespace.delete(self._namespace.core("pods", name))
        elif uid not in self._running:
            # Without a node, a deleted pod would be gone at once, while its driver still runs.
            self._namespace.bind(name)
            self._running[uid] = self._start(pod)
            self.started += 1
            self._namespace.set_ready(name, "True")
        else:
            self._show_executors(pod)

    def _start(self, pod: Document) -> process.ChildProcess:
        """Run the pod's command with other paths: those of a container do not exist here."""
        uid, account = pod["metadata"]["uid"], pod["spec"]["serviceAccountName"]
        folder = self._folder.path / uid
        folder.mkdir()
        (source,) = (
            each["configMap"]["name"]
            for each in pod["spec"]["volumes"]
            if each["name"] == "evenkeel-job"
        )
        found = self._namespace.found(self._namespace.core("configmaps", source))
        assert found is not None
        job = job_file.decode(found["data"][names.JOB])
        assert job.kubernetes is not None
        job = msgspec.structs.replace(
            job,
            assignments=str(folder / names.ASSIGNMENT),
            report=str(folder / names.REPORT),
            metrics_port=self._port(),
            spark=SPARK | {"spark.master": f"local-cluster[{job.executors},1,1024]"},
            kubernetes=msgspec.structs.replace(
                job.kubernetes,
                server=self._cluster.url,
                credentials=str(self._credentials(folder, account)),
            ),
        )
        file = folder / names.JOB
        file.write_text(job_file.encode(job))
        environment = {
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_SCALA_VERSION": "2.13",
            **archive.make_environment(),
            "EVENKEEL_POD_UID": uid,
        }
        command = [sys.executable, "-m", "spark_jobs.pipeline", file]
        return process.ChildProcess(f"driver-{uid}", command, self._folder, environment)

    def _port(self) -> int:
        self._claims.append(ports.claim())
        return self._claims[-1].port

    def _credentials(self, folder: Path, account: str) -> Path:
        user = self._cluster.service_account(self._namespace.name, account)
        config = json.loads(user.kubeconfig.read_text())
        authority = config["clusters"][0]["cluster"]["certificate-authority-data"]
        (folder / "token").write_text(config["users"][0]["user"]["token"])
        (folder / "ca.crt").write_bytes(base64.b64decode(authority))
        return folder

    def _show_executors(self, driver: Document) -> None:
        """Create a pod for each executor of Spark. Here, the executors are processes."""
        name, uid = driver["metadata"]["name"], driver["metadata"]["uid"]
        found = self._namespace.found(self._namespace.core("configmaps", name))
        text = ((found or {}).get("data") or {}).get("report.json")
        report = json.loads(text) if text else {}
        if report.get("driver") != uid:
            return
        shown = {pod["metadata"]["name"] for pod in self._pods(EXECUTOR)}
        for seat in report["slots"].values():
            pod = f"{name}-{uid[:5]}-exec-{seat['executor']}"
            if pod in shown:
                continue
            labels = {
                "evenkeel.dev/group": driver["metadata"]["labels"]["evenkeel.dev/group"],
                "spark-role": "executor",
                "spark-exec-id": seat["executor"],
            }
            owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
            self._namespace.pod(pod, labels, owner)

    def _remove_executors(self, driver: str) -> None:
        """Remove the executors' pods, because executors end with their driver."""
        for pod in self._pods(EXECUTOR):
            if any(owner["uid"] == driver for owner in pod["metadata"]["ownerReferences"]):
                self._namespace.delete(self._namespace.core("pods", pod["metadata"]["name"]))

    def _pods(self, selector: str) -> list[Document]:
        place = f"{self._namespace.core('pods')}?labelSelector={selector}"
        with contextlib.suppress(OSError):
            items: list[Document] = self._namespace.user.ask("GET", place).body["items"]
            return items
        return []
