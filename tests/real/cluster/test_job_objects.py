"""The objects of a job on a real API server, with a real Spark driver that creates executors."""

import dataclasses
import json
import re
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
import pyspark
import pytest

from contract import job_file
from evenkeel import manifests
from evenkeel.cluster.api.api_client import APPLY
from evenkeel.cluster.manifest import job_objects
from evenkeel.objects import ConsumerGroup, Key, Topic
from images.spark import entrypoint
from sandbox import jars, process
from sandbox.kubernetes import Cluster
from sandbox.kubernetes_users import ApiAnswer, ApiUser
from sandbox.statuses import Document
from sandbox.waiting import wait_for
from tests.real.cluster.running import Namespace

ROOT = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
RPC_REQUEST, RPC_FAILURE = b"\3", b"\5"
"""Message types of Spark's network protocol."""
A_JAVA_STRING = b"\xac\xed\0\5t\0\5hello"
"""A serialized Java object. A port that accepts it accepts any object."""
REGISTERED = "Successfully registered with driver"
RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
MERGE = "application/merge-patch+json"
PATHS = {
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "Pod": ("/api/v1", "pods"),
}
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SPARK_SECONDS = 240.0
PLAIN: Document = {
    "executors": 2,
    "sink": {"format": "json", "path": "s3a://rows"},
    "checkpoint": {"url": "s3a://state"},
}
SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
TEMPLATE: Document = {
    "metadata": {"labels": {"team": "12e4"}, "annotations": {"note": "yes"}},
    "spec": {
        "containers": [
            {"name": "proxy", "image": "proxy", "securityContext": SECURITY},
            {
                "name": "main",
                "env": [{"name": "MINE", "value": "1"}],
                "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
        ],
        "initContainers": [{"name": "first", "image": "first", "securityContext": SECURITY}],
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}],
        "terminationGracePeriodSeconds": 333,
    },
}
FULL: Document = {
    "executors": 2,
    "transform": {"configMapRef": {"name": "code", "key": "transform.py"}},
    "sink": {"format": "json", "path": "/state/rows"},
    "deadLetter": {"configMapRef": {"name": "code", "key": "dead.py"}},
    "checkpoint": {"persistentVolumeClaim": "billing-state"},
    "driver": {"podTemplate": TEMPLATE},
    "executor": {"cores": 2, "memory": "1500Mi", "podTemplate": TEMPLATE},
    "sparkConf": {"spark.scheduler.minRegisteredResourcesRatio": "0"},  # there is no node
}


@dataclasses.dataclass
class Made:
    """A group in the API, and the objects of its job."""

    namespace: Namespace
    group: ConsumerGroup
    topics: dict[Key, Topic]

    @property
    def objects(self) -> list[Document]:
        return job_objects.build_job_objects(self.group, self.topics, "registry/job:1").objects

    def path(self, document: Document) -> str:
        root, plural = PATHS[document["kind"]]
        return f"{root}/namespaces/{self.namespace.name}/{plural}/{document['metadata']['name']}"

    def apply(self) -> list[Document]:
        """Apply all objects, as the operator does; return what the API server then has."""
        return [self._applied(each) for each in self.objects]

    def _applied(self, document: Document) -> Document:
        path = f"{self.path(document)}?fieldManager=evenkeel&force=true"
        answer = self.namespace.user.ask("PATCH", path, document, APPLY)
        assert answer.status in (200, 201), answer.body
        found: Document = answer.body
        return found

    def executors(self) -> list[Document]:
        labels = quote("evenkeel.dev/group=billing,spark-role=executor")
        path = self.namespace.core("pods")
        items: list[Document] = self.namespace.user.ask(
            "GET", f"{path}?labelSelector={labels}"
        ).body["items"]
        return items


def made(namespace: Namespace, job: Document) -> Made:
    """Create topic and group in a namespace that accepts only restricted pods."""
    admin = namespace.user
    path = f"/api/v1/namespaces/{namespace.name}"
    assert admin.ask("PATCH", path, RESTRICTED, MERGE).status == 200
    topic = manifests.read_topic(
        namespace.make(
            "Topic",
            "orders",
            {
                "nameServers": ["mq:9876"],
                "credentialsSecretRef": {"name": "acl"},
                "tls": {"caSecretRef": {"name": "mq-ca"}},
            },
        )
    )
    spec = {"topics": [{"name": "orders"}], "job": job}
    group = manifests.read_group(namespace.make("ConsumerGroup", "billing", spec))
    return Made(namespace, group, {topic.head.key: topic})


@pytest.fixture
def full(namespace: Namespace) -> Made:
    found = made(namespace, FULL)
    found.apply()
    return found


@pytest.fixture
def account(kubernetes: Cluster, full: Made) -> ApiUser:
    """The driver's account. RBAC already knows its role."""
    found = kubernetes.service_account(full.namespace.name, "billing-driver")
    pods = full.namespace.core("pods")
    assert wait_for(lambda: found.ask("GET", pods).status, lambda status: status == 200) == 200
    return found


def versions(documents: list[Document]) -> list[str]:
    return [each["metadata"]["resourceVersion"] for each in documents]


@pytest.mark.parametrize("job", [PLAIN, FULL], ids=["plain", "full"])
def test_all_objects_are_taken_and_applied_again_they_stay_as_they_are(
    namespace: Namespace, job: Document
) -> None:
    found = made(namespace, job)
    first = found.apply()
    assert [each["kind"] for each in first][-1] == "Pod"
    assert first[-1]["spec"]["serviceAccountName"] == "billing-driver"
    assert versions(found.apply()) == versions(first)


def test_the_namespace_of_these_tests_refuses_other_pods(full: Made) -> None:
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    answer = full.namespace.user.ask("POST", full.namespace.core("pods"), pod)
    assert answer.status == 403
    assert 'violates PodSecurity "restricted' in answer.body["message"]


def test_a_changed_number_of_executors_changes_the_job_file_alone(full: Made) -> None:
    before = full.apply()
    assert full.group.spec.job is not None
    job = msgspec.structs.replace(full.group.spec.job, executors=5)
    spec = msgspec.structs.replace(full.group.spec, job=job)
    full.group = dataclasses.replace(full.group, spec=spec)
    changed = [
        old["kind"]
        for old, new in zip(before, full.apply(), strict=True)
        if versions([old]) != versions([new])
    ]
    assert changed == ["ConfigMap"]


def test_what_the_driver_has_written_stays_when_all_is_applied_again(
    full: Made, account: ApiUser
) -> None:
    config_map = full.namespace.core("configmaps", "billing-driver")
    report = {"data": {"report.json": "{}"}}
    assert account.ask("PATCH", config_map, report, MERGE).status == 200
    root, plural = PATHS["Lease"]
    lease = f"{root}/namespaces/{full.namespace.name}/{plural}/billing-driver"
    held = account.ask("GET", lease).body
    held["spec"] = {"holderIdentity": "somebody", "leaseDurationSeconds": 30}
    assert account.ask("PUT", lease, held).status == 200
    full.apply()
    assert account.ask("GET", config_map).body["data"] == report["data"]
    assert account.ask("GET", lease).body["spec"] == held["spec"]


def test_the_driver_follows_its_own_group_and_no_other(full: Made, account: ApiUser) -> None:
    groups = full.namespace.path("consumergroups")
    own = account.ask("GET", f"{groups}?fieldSelector=metadata.name%3Dbilling")
    assert [each["metadata"]["name"] for each in own.body["items"]] == ["billing"]
    assert account.ask("GET", f"{groups}/billing").status == 200
    assert account.ask("GET", groups).status == 403
    assert account.ask("GET", f"{groups}?fieldSelector=metadata.name%3Dother").status == 403


CORE, OURS, LEASES = "", "evenkeel.dev", "coordination.k8s.io"
ALLOWED = [
    (CORE, "pods", "", "create get list watch patch delete deletecollection"),
    (OURS, "consumergroups", "billing", "get list watch"),
    (CORE, "configmaps", "billing-driver", "get patch"),
    (LEASES, "leases", "billing-driver", "get update"),
]
FORBIDDEN = [
    (CORE, "pods", "", "update"),
    (CORE, "pods/exec", "", "create get"),
    (CORE, "pods/log", "", "get"),
    (CORE, "pods/ephemeralcontainers", "", "patch update"),
    (CORE, "secrets", "", "get list watch create"),
    (CORE, "secrets", "acl", "get"),
    (CORE, "services", "", "get list create delete deletecollection"),
    (CORE, "persistentvolumeclaims", "", "get list create delete deletecollection"),
    (CORE, "serviceaccounts", "", "get create"),
    (CORE, "serviceaccounts/token", "billing-driver", "create"),
    (CORE, "configmaps", "", "get list watch create delete deletecollection"),
    (CORE, "configmaps", "billing-job", "get patch update"),
    (CORE, "configmaps", "billing-driver", "delete update"),
    (LEASES, "leases", "", "get list create delete"),
    ("networking.k8s.io", "networkpolicies", "", "get create patch update delete"),
    (LEASES, "leases", "billing-driver", "delete patch"),
    (OURS, "consumergroups", "", "get list watch"),
    (OURS, "consumergroups", "billing", "update patch delete"),
    (OURS, "consumergroups/status", "billing", "update patch"),
    (OURS, "topics", "", "get list"),
    ("rbac.authorization.k8s.io", "roles", "", "get create update escalate bind"),
]


def test_the_driver_has_the_rights_that_it_needs_and_few_others(
    full: Made, account: ApiUser
) -> None:
    def may(group: str, resource: str, name: str, verb: str) -> bool:
        plural, _, part = resource.partition("/")
        asked = {
            "namespace": full.namespace.name,
            "group": group,
            "resource": plural,
            "subresource": part,
            "name": name,
            "verb": verb,
        }
        review = {"spec": {"resourceAttributes": asked}}
        answer: ApiAnswer = account.ask("POST", REVIEWS, review)
        assert answer.status == 201, answer.body
        return bool(answer.body["status"]["allowed"])

    def told(table: list[tuple[str, str, str, str]]) -> dict[tuple[str, str, str], bool]:
        return {
            (resource, name, verb): may(group, resource, name, verb)
            for group, resource, name, verbs in table
            for verb in verbs.split()
        }

    assert [each for each, is_so in told(ALLOWED).items() if not is_so] == []
    assert [each for each, is_so in told(FORBIDDEN).items() if is_so] == []


def test_slices_can_be_read_once_the_status_names_them(full: Made, account: ApiUser) -> None:
    slice_map = full.namespace.core("configmaps", "billing-7-0")
    body = {"metadata": {"name": "billing-7-0"}}
    assert full.namespace.user.ask("POST", full.namespace.core("configmaps"), body).status == 201
    assert account.ask("GET", slice_map).status == 403
    status = msgspec.structs.replace(full.group.status, slices=["billing-7-0"])
    full.group = dataclasses.replace(full.group, status=status)
    full.apply()
    seen = wait_for(lambda: account.ask("GET", slice_map).status, lambda status: status == 200)
    assert seen == 200


@pytest.fixture
def spark(full: Made, account: ApiUser, tmp_path: Path) -> Iterator[process.ChildProcess]:
    """A driver like the one in a pod, except for two addresses; it has the account's rights."""
    if jars.find_java() is None:
        pytest.skip("NO SPARK: there is no Java")
    data = full.objects[3]["data"]
    job = job_file.decode(data["job.json"])
    config = account.kubeconfig.read_text()
    server = json.loads(config)["clusters"][0]["cluster"]["server"]
    settings = {
        "spark.master": f"k8s://{server}",
        "spark.kubernetes.executor.podTemplateFile": str(tmp_path / "executor.json"),
    }
    job = msgspec.structs.replace(
        job,
        spark=job.spark | settings,
        kubernetes=None,  # no assignment is followed here
    )
    (tmp_path / "executor.json").write_text(data["executor.json"])
    (tmp_path / "job.json").write_text(job_file.encode(job))
    environment = {
        "KUBECONFIG": str(account.kubeconfig),
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
    full.namespace.set_ready("billing-driver", "True")
    folder = process.Folder("evenkeel-driver-")
    script = Path(__file__).with_name("spark_driver.py")
    command = [sys.executable, script, tmp_path / "job.json"]
    try:
        yield process.ChildProcess("driver", [str(each) for each in command], folder, environment)
    finally:
        sys.stdout.write((folder.path / "driver.log").read_text(errors="replace"))
        folder.close()


def test_spark_makes_executors_with_these_rights_and_takes_them_away(
    full: Made, spark: process.ChildProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.wait_until(lambda: len(full.executors()) == 2, SPARK_SECONDS)
    for pod in full.executors():
        check_executor(pod)
    spark.wait_until(lambda: spark.has_said("Spark is open"), SPARK_SECONDS)
    environment = environment_of(full.executors()[0])
    assert asked_by_a_stranger(environment["SPARK_DRIVER_URL"]) in (RPC_FAILURE, b"")
    assert not spark.has_said("Received unexpected ask")
    (tmp_path / "classpath").write_text(f"{SPARK_HOME}/jars/*")
    monkeypatch.setattr(entrypoint, "ARCHIVED", tmp_path / "classpath")
    with process.make_folder("evenkeel-executor-") as folder:
        command = entrypoint.executor(environment)
        executor = process.ChildProcess("executor", command, folder, environment)
        executor.wait_until(lambda: executor.has_said(REGISTERED), SPARK_SECONDS)
    spark.stop(SPARK_SECONDS)
    assert full.executors() == []
    assert not re.search("(?i)forbidden", spark.log.read_text(errors="replace"))


def environment_of(pod: Document) -> dict[str, str]:
    """Return an executor's environment: what Spark sets, and what a kubelet would add."""
    (main,) = (each for each in pod["spec"]["containers"] if each["name"] == "main")
    said = {each["name"]: each["value"] for each in main["env"] if "value" in each}
    name = pod["metadata"]["name"]
    here = {"SPARK_EXECUTOR_POD_IP": "127.0.0.1", "SPARK_EXECUTOR_POD_NAME": name}
    return {**said, **here, "SPARK_HOME": str(SPARK_HOME)}


def asked_by_a_stranger(url: str) -> bytes:
    """Send the driver an object as executors do, but no secret; return the type of the reply."""
    port = urlsplit(url).port
    assert port is not None
    host, endpoint = b"127.0.0.1", b"CoarseGrainedScheduler"
    receiver = struct.pack(">?H", True, len(host)) + host + struct.pack(">I", port)
    named = struct.pack(">H", len(endpoint)) + endpoint
    message = struct.pack(">?", False) + receiver + named + A_JAVA_STRING
    request = RPC_REQUEST + struct.pack(">qI", 1, len(message)) + message
    with socket.create_connection((host.decode(), port), SPARK_SECONDS) as connection:
        connection.sendall(struct.pack(">q", 8 + len(request)) + request)
        return connection.makefile("rb").read(9)[8:]


def check_executor(pod: Document) -> None:
    """Check that an executor has what spec and template say, and nothing that it does not need."""
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Pod", "billing-driver")
    assert re.fullmatch(r"billing-[0-9a-f]+-exec-[12]", pod["metadata"]["name"])
    assert pod["metadata"]["labels"]["team"] == "12e4"
    assert pod["metadata"]["annotations"]["note"] == "yes"
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "default"
    assert spec["terminationGracePeriodSeconds"] == 333
    assert spec["nodeSelector"] == {"disk": "ssd"}
    by_name = {each["name"]: each for each in spec["containers"]}
    assert set(by_name) == {"main", "proxy"}
    main = by_name["main"]
    assert main["args"] == ["executor"]
    assert main["image"] == "registry/job:1"
    assert main["resources"]["limits"]["memory"] == "1500Mi"
    assert main["resources"]["requests"] == {"cpu": "2", "memory": "1500Mi"}
    environment = {each["name"]: each for each in main["env"]}
    assert environment["SPARK_DRIVER_URL"]["value"].startswith(
        "spark://CoarseGrainedScheduler@127.0.0.1:"
    )
    own_name = environment["SPARK_EXECUTOR_POD_NAME"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert own_name == "metadata.name", "the driver needs the pod's name to drain it"
    secret = environment["EVENKEEL_SECRET_KEY"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "acl", "key": "secretKey"}
    mounts = {each["mountPath"] for each in main["volumeMounts"]}
    assert {"/tmp", "/work", "/state", "/etc/evenkeel-tls", "/data"} <= mounts
    assert main["securityContext"]["readOnlyRootFilesystem"] is True
