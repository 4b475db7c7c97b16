"""Which objects of our kinds a real API server accepts, and how it refuses others."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from contract.kinds import parts
from evenkeel import crds
from evenkeel.crds import CONSUMER_GROUP, TOPIC, CrdKind
from sandbox.kubernetes import Cluster
from sandbox.kubernetes_users import ApiAnswer, ApiUser
from tests.specs import GROUP, MEMBERS, REFUSED, SERVERS, TAKEN, Spec, of_job, thing


def path(kind: CrdKind, name: str = "") -> str:
    folder = f"/apis/{parts.GROUP}/{parts.VERSION}/namespaces/default/{kind.plural}"
    return f"{folder}/{name}" if name else folder


@pytest.fixture(scope="module")
def admin(kubernetes: Cluster) -> ApiUser:
    return kubernetes.admin


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    words = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    return words.lower()[:50].strip("-")


def made(admin: ApiUser, kind: CrdKind, name: str, spec: Spec) -> ApiAnswer:
    return admin.ask("POST", path(kind), thing(kind, name, spec))


@pytest.mark.parametrize(("kind", "spec"), TAKEN)
def test_what_can_be_is_taken(admin: ApiUser, name: str, kind: CrdKind, spec: Spec) -> None:
    answer = made(admin, kind, name, spec)
    assert answer.status == 201, answer.body


@pytest.mark.parametrize(("kind", "spec", "complaint"), REFUSED)
def test_what_cannot_be_is_refused_with_the_reason(
    admin: ApiUser, name: str, kind: CrdKind, spec: Spec, complaint: str
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
    admin: ApiUser, name: str, kind: CrdKind, spec: Spec, field: str
) -> None:
    assert made(admin, kind, name, spec).status == 201
    for change in ("another", None):
        answer = admin.ask(
            "PATCH", path(kind, name), {"spec": {field: change}}, "application/merge-patch+json"
        )
        assert answer.status == 422
        assert f"{field} is immutable" in answer.body["message"]


def test_balance_changes_only_while_the_group_has_members(admin: ApiUser, name: str) -> None:
    def change(spec: Spec) -> ApiAnswer:
        where = path(CONSUMER_GROUP, name)
        return admin.ask("PATCH", where, {"spec": spec}, "application/merge-patch+json")

    assert made(admin, CONSUMER_GROUP, name, MEMBERS).status == 201
    assert change({"balance": "Messages"}).status == 200
    assert change({"balance": "Queues"}).status == 200
    static = {"members": None, "static": [{"id": "a"}]}
    assert change({"balance": "Messages"}).status == 200
    for answer in (
        change({"balance": "Queues", "consumers": static}),
        change({"consumers": static}),
    ):
        assert answer.status == 422
    assert change({"balance": "Queues"}).status == 200
    assert change({"consumers": static}).status == 200
    answer = change({"balance": "Messages", "consumers": {"members": {}, "static": None}})
    assert answer.status == 422
    assert "balance can change only while the group has consumers.members" in answer.body["message"]


def test_an_epoch_never_goes_back(admin: ApiUser, name: str) -> None:
    assert made(admin, CONSUMER_GROUP, name, GROUP).status == 201

    def publish(status: Spec) -> ApiAnswer:
        where = f"{path(CONSUMER_GROUP, name)}/status"
        return admin.ask("PATCH", where, {"status": status}, "application/merge-patch+json")

    assert publish({"epoch": 4}).status == 200
    for older in (3, None):
        answer = publish({"epoch": older})
        assert answer.status == 422
        assert "epoch must not decrease" in answer.body["message"]
    assert publish({"epoch": 5, "consumers": 2}).body["status"]["epoch"] == 5


def test_autoscalers_find_a_scale(admin: ApiUser, name: str) -> None:
    assert made(admin, CONSUMER_GROUP, name, of_job(executors=3)).status == 201
    where = f"{path(CONSUMER_GROUP, name)}/scale"
    assert admin.ask("GET", where).body["spec"]["replicas"] == 3
    change = {"spec": {"replicas": 5}}
    assert admin.ask("PATCH", where, change, "application/merge-patch+json").status == 200
    found = admin.ask("GET", path(CONSUMER_GROUP, name)).body
    assert found["spec"]["job"]["executors"] == 5


def test_defaults_are_written_out_and_a_pods_own_fields_are_kept(admin: ApiUser, name: str) -> None:
    template = {"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}}
    spec = of_job(executor={"podTemplate": template})
    found = made(admin, CONSUMER_GROUP, name, spec).body["spec"]
    assert found["strategy"] == {"name": "Sticky", "pinnedConsumers": []}
    assert found["rebalance"]["interval"] == "20s"
    assert found["job"]["executor"]["podTemplate"]["spec"] == template["spec"]
    assert found["job"]["executor"]["cores"] == 1


def test_a_list_shows_at_a_glance_whether_all_is_well(admin: ApiUser, name: str) -> None:
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
    """Make copies of a good value, each with one bad field, together with that field's name."""
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
    admin: ApiUser, kind: CrdKind, good: Spec, fields: int
) -> None:
    tried = 0
    (version,) = crds.build_definition(kind)["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for field, spec in with_bad_fields(schema, good):
        answer = admin.ask("POST", f"{path(kind)}?dryRun=All", thing(kind, "bad", spec))
        assert answer.status in (400, 422), (field, answer.body)
        assert f"spec.{field}" in answer.body["message"], answer.body["message"][:1000]
        tried += 1
    assert tried >= fields
