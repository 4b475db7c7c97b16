"""What a real API server makes of our kinds: which objects it takes, and what it says to others."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from evenkeel import crds
from evenkeel.api import parts
from evenkeel.crds import CONSUMER_GROUP, TOPIC, Kind
from sandbox.kubernetes import Cluster
from sandbox.kubernetes_users import Answer, User

Spec = dict[str, Any]


def path(kind: Kind, name: str = "") -> str:
    folder = f"/apis/{parts.GROUP}/{parts.VERSION}/namespaces/default/{kind.plural}"
    return f"{folder}/{name}" if name else folder


@pytest.fixture(scope="module")
def admin(kubernetes: Cluster) -> User:
    return kubernetes.admin


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    words = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    return words.lower()[:50].strip("-")


def thing(kind: Kind, name: str, spec: Spec) -> Spec:
    head = {"apiVersion": f"{parts.GROUP}/{parts.VERSION}", "kind": kind.name}
    return {**head, "metadata": {"name": name}, "spec": spec}


def made(admin: User, kind: Kind, name: str, spec: Spec) -> Answer:
    return admin.ask("POST", path(kind), thing(kind, name, spec))


SERVERS = {"nameServers": ["mq:9876"]}
QUEUES = {"broker": "broker-a", "readQueues": 8, "writeQueues": 8}
STATIC = {"consumers": {"static": [{"id": "a"}]}}
TOPICS = {"topics": [{"name": "orders"}]}
GROUP: Spec = {**TOPICS, **STATIC}
JOB: Spec = {
    "sink": {"format": "parquet", "path": "/rows"},
    "checkpoint": {"persistentVolumeClaim": "state"},
}


def of_job(**changes: Any) -> Spec:
    return {**TOPICS, "job": {**JOB, **changes}}


def by(**strategy: Any) -> Spec:
    return {**GROUP, "strategy": strategy}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (TOPIC, SERVERS),
        (TOPIC, {"route": [QUEUES]}),
        (
            TOPIC,
            {**SERVERS, "topic": "orders%v2", "provision": {"readQueues": 8, "writeQueues": 8}},
        ),
        (TOPIC, {**SERVERS, "tls": {}, "credentialsSecretRef": {"name": "acl"}}),
        (CONSUMER_GROUP, GROUP),
        (CONSUMER_GROUP, {**GROUP, "messageModel": "Broadcasting"}),
        (CONSUMER_GROUP, {**TOPICS, "consumers": {"podSelector": {"matchLabels": {"app": "a"}}}}),
        (CONSUMER_GROUP, by(name="Sticky", sticky={"zones": "Require", "maxMoves": "25%"})),
        (CONSUMER_GROUP, by(name="MachineRoom", machineRoom={"rooms": ["r1"]})),
        (CONSUMER_GROUP, by(name="AveragelyByCircle", pinnedConsumers=["a"])),
        (CONSUMER_GROUP, of_job()),
        (CONSUMER_GROUP, of_job(mode="Scheduled", schedule={"cron": "*/10 * * * *"})),
        (CONSUMER_GROUP, of_job(startFrom="Timestamp", startTimestamp="2026-11-21T08:00:00Z")),
        (CONSUMER_GROUP, of_job(executor={"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}})),
    ],
)
def test_what_can_be_is_taken(admin: User, name: str, kind: Kind, spec: Spec) -> None:
    answer = made(admin, kind, name, spec)
    assert answer.status == 201, answer.body


@pytest.mark.parametrize(
    ("kind", "spec", "complaint"),
    [
        (TOPIC, {}, "give either nameServers or route"),
        (TOPIC, {**SERVERS, "route": [QUEUES]}, "give either nameServers or route"),
        (TOPIC, {"nameServers": ["mq"]}, "spec.nameServers[0]"),
        (TOPIC, {"nameServers": []}, "should have at least 1 items"),
        (TOPIC, {"nameServers": "mq:9876"}, "must be of type array"),
        (TOPIC, {"route": []}, "should have at least 1 items"),
        (TOPIC, {"route": [QUEUES, QUEUES]}, 'Duplicate value: {"broker":"broker-a"}'),
        (TOPIC, {"route": [{**QUEUES, "perm": "All"}]}, 'supported values: "Read"'),
        (TOPIC, {"route": [QUEUES], "tls": {}}, "tls need nameServers"),
        (TOPIC, {**SERVERS, "topic": "a b"}, "spec.topic"),
        (TOPIC, {**SERVERS, "provision": {"readQueues": 0, "writeQueues": 1}}, "readQueues"),
        (TOPIC, {**SERVERS, "provision": {"readQueues": 4, "writeQueues": 8}}, "nobody could read"),
        (TOPIC, {**SERVERS, "refreshInterval": "soon"}, "spec.refreshInterval"),
        (CONSUMER_GROUP, STATIC, "spec.topics: Required value"),
        (CONSUMER_GROUP, {**STATIC, "topics": []}, "should have at least 1 items"),
        (CONSUMER_GROUP, TOPICS, "give either job or consumers"),
        (CONSUMER_GROUP, {**GROUP, "job": JOB}, "give either job or consumers"),
        (CONSUMER_GROUP, {**TOPICS, "consumers": {}}, "give either podSelector or static"),
        (
            CONSUMER_GROUP,
            {**of_job(), "messageModel": "Broadcasting"},
            "Broadcasting is for groups",
        ),
        (CONSUMER_GROUP, by(name="Stickyy"), "Unsupported value"),
        (CONSUMER_GROUP, by(name="Averagely", sticky={}), "sticky belongs to name: Sticky"),
        (CONSUMER_GROUP, by(name="MachineRoom"), "MachineRoom needs machineRoom"),
        (CONSUMER_GROUP, by(name="Config"), "Config needs config"),
        (CONSUMER_GROUP, by(sticky={"minGain": "ten"}), "minGain"),
        (CONSUMER_GROUP, by(sticky={"maxMoves": "101%"}), "maxMoves"),
        (CONSUMER_GROUP, {**STATIC, "topics": [{"name": "t", "filter": {}}]}, "either tags or sql"),
        (CONSUMER_GROUP, {**GROUP, "rebalance": {"grace": "-1s"}}, "rebalance.grace"),
        (CONSUMER_GROUP, of_job(executors=-1), "executors"),
        (CONSUMER_GROUP, of_job(executors="3"), "must be of type integer"),
        (CONSUMER_GROUP, of_job(executors=10**12), "should be less than or equal to 1000"),
        (CONSUMER_GROUP, of_job(mode="Scheduled"), "schedule belongs to mode: Scheduled"),
        (CONSUMER_GROUP, of_job(schedule={"cron": "* * * * *"}), "schedule belongs to mode"),
        (CONSUMER_GROUP, of_job(startFrom="Timestamp"), "startTimestamp belongs to startFrom"),
        *(
            (CONSUMER_GROUP, of_job(startFrom="Timestamp", startTimestamp=text), "startTimestamp")
            for text in ("garbage", "", "2026-02-30T08:00:00Z", "2026-11-21T08:00:00")
        ),
        (CONSUMER_GROUP, of_job(checkpoint={}), "give persistentVolumeClaim or url"),
        (CONSUMER_GROUP, of_job(sink={"path": "/rows"}), "give format or configMapRef"),
        (CONSUMER_GROUP, of_job(transform={}), "give sql or configMapRef"),
        (CONSUMER_GROUP, {**TOPICS, "job": {"sink": {"format": "noop"}}}, "checkpoint: Required"),
        (CONSUMER_GROUP, of_job(driver={"memory": "much"}), "driver.memory"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    admin: User, name: str, kind: Kind, spec: Spec, complaint: str
) -> None:
    answer = made(admin, kind, name, spec)
    assert answer.status == 422, answer.body
    assert complaint in answer.body["message"]


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (TOPIC, {**SERVERS, "topic": "orders"}, "topic"),
        (CONSUMER_GROUP, {**GROUP, "group": "g"}, "group"),
    ],
)
def test_a_name_at_the_brokers_stays_as_it_was_made(
    admin: User, name: str, kind: Kind, spec: Spec, field: str
) -> None:
    assert made(admin, kind, name, spec).status == 201
    for change in ("another", None):
        answer = admin.ask(
            "PATCH", path(kind, name), {"spec": {field: change}}, "application/merge-patch+json"
        )
        assert answer.status == 422
        assert f"{field} cannot be changed" in answer.body["message"]


def test_an_epoch_never_goes_back(admin: User, name: str) -> None:
    assert made(admin, CONSUMER_GROUP, name, GROUP).status == 201

    def publish(status: Spec) -> Answer:
        where = f"{path(CONSUMER_GROUP, name)}/status"
        return admin.ask("PATCH", where, {"status": status}, "application/merge-patch+json")

    assert publish({"epoch": 4}).status == 200
    for older in (3, None):
        answer = publish({"epoch": older})
        assert answer.status == 422
        assert "epoch never goes back" in answer.body["message"]
    assert publish({"epoch": 5, "consumers": 2}).body["status"]["epoch"] == 5


def test_autoscalers_find_a_scale(admin: User, name: str) -> None:
    assert made(admin, CONSUMER_GROUP, name, of_job(executors=3)).status == 201
    where = f"{path(CONSUMER_GROUP, name)}/scale"
    assert admin.ask("GET", where).body["spec"]["replicas"] == 3
    change = {"spec": {"replicas": 5}}
    assert admin.ask("PATCH", where, change, "application/merge-patch+json").status == 200
    found = admin.ask("GET", path(CONSUMER_GROUP, name)).body
    assert found["spec"]["job"]["executors"] == 5


def test_defaults_are_written_out_and_a_pods_own_fields_are_kept(admin: User, name: str) -> None:
    template = {"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
    spec = of_job(executor={"podTemplate": template})
    found = made(admin, CONSUMER_GROUP, name, spec).body["spec"]
    assert found["strategy"] == {"name": "Sticky", "pinnedConsumers": []}
    assert found["rebalance"]["interval"] == "20s"
    assert found["job"]["executor"]["podTemplate"]["spec"] == template["spec"]
    assert found["job"]["executor"]["cores"] == 1


def test_a_list_shows_at_a_glance_whether_all_is_well(admin: User, name: str) -> None:
    assert made(admin, CONSUMER_GROUP, name, GROUP).status == 201
    definition = admin.ask(
        "GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CONSUMER_GROUP.crd_name}"
    ).body
    (version,) = definition["spec"]["versions"]
    names = [column["name"] for column in version["additionalPrinterColumns"]]
    assert names == [
        "Topics", "Strategy", "Queues", "Consumers", "Moved", "Lag", "Epoch", "Adopted", "Ready",
        "Reason", "Age",
    ]  # fmt: skip
    conditions = definition["status"]["conditions"]
    assert {each["type"]: each["status"] for each in conditions} == {
        "NamesAccepted": "True",
        "Established": "True",
    }


WRONG: Mapping[str, Any] = {"string": 7, "integer": "x", "boolean": "x", "array": {}, "object": []}
ABSURD: Mapping[str, Any] = {"maxLength": "7" * 100_000, "maximum": 10**15, "minimum": -(10**15)}


def bad_values(schema: Spec) -> Iterator[Any]:
    """Make values that a field must not have."""
    yield WRONG[schema["type"]]
    for limit, value in ABSURD.items():
        if limit in schema:
            yield value


def with_bad_fields(schema: Spec, good: Any) -> Iterator[tuple[str, Any]]:
    """Make copies of a good value, each with one bad field; the field's name stands before it."""
    for name, field in schema.get("properties", {}).items():
        for bad in bad_values(field):
            yield name, {**good, name: bad}
        inner = good.get(name, {} if field["type"] == "object" else None)
        for where, worse in with_bad_fields(field, inner):
            yield f"{name}{where if where.startswith('[') else f'.{where}'}", {**good, name: worse}
    if "items" in schema:
        for bad in bad_values(schema["items"]):
            yield "[0]", [bad]
        inner = good[0] if good else {}
        for where, worse in with_bad_fields(schema["items"], inner):
            yield f"[0].{where}", [worse]
    if isinstance(schema.get("additionalProperties"), dict):
        for bad in bad_values(schema["additionalProperties"]):
            yield "some", {"some": bad}


@pytest.mark.parametrize(
    ("kind", "good", "fields"),
    [(TOPIC, {**SERVERS}, 20), (CONSUMER_GROUP, GROUP, 60), (CONSUMER_GROUP, of_job(), 100)],
)
def test_each_field_refuses_wrong_types_and_absurd_sizes(
    admin: User, kind: Kind, good: Spec, fields: int
) -> None:
    tried = 0
    (version,) = crds.definition(kind)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for field, spec in with_bad_fields(schema, good):
        answer = admin.ask("POST", f"{path(kind)}?dryRun=All", thing(kind, "bad", spec))
        assert answer.status in (400, 422), (field, answer.body)
        assert f"spec.{field}" in answer.body["message"], answer.body["message"][:1000]
        tried += 1
    assert tried >= fields
