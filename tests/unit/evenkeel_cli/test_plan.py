"""`evenkeel plan`: which queues would move, computed from manifests alone."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.names import API_VERSION
from evenkeel import manifests
from evenkeel.errors import ManifestError
from evenkeel.objects import Key
from evenkeel_cli import frame
from evenkeel_cli.codes import FAILED, MISUSED, NOTHING_MOVES, SOMETHING_MOVES
from evenkeel_cli.facts import foresight
from lb_core.plan import Plan

HEAD = {"apiVersion": API_VERSION}
BROKERS = [
    {"broker": "broker-a", "readQueues": 4, "writeQueues": 4, "zone": "z1"},
    {"broker": "broker-b", "readQueues": 4, "writeQueues": 4, "zone": "z2"},
]
BILLING = Key("default", "billing")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = {"executors": 2, "sink": {"format": "noop"}, "checkpoint": {"url": "/state"}}
HALVES = {"billing-0": {"broker-a": "0-3"}, "billing-1": {"broker-b": "0-3"}}


def topic(name: str = "orders", **spec: Any) -> dict[str, Any]:
    spec = spec or {"route": BROKERS}
    return {**HEAD, "kind": "Topic", "metadata": {"name": name}, "spec": spec}


def group(owned: dict[str, dict[str, str]] | None = None, **spec: Any) -> dict[str, Any]:
    """Make a group, with the owners of queues in its status."""
    consumers = {} if "consumers" in spec else {"job": JOB}
    status = {
        "epoch": 3,
        "assignments": [
            {
                "consumer": consumer,
                "queues": [
                    {"topic": "orders", "broker": broker, "ids": ids}
                    for broker, ids in queues.items()
                ],
            }
            for consumer, queues in (owned or {}).items()
        ],
    }
    return {
        **HEAD,
        "kind": "ConsumerGroup",
        "metadata": {"name": "billing"},
        "spec": {"topics": [{"name": "orders"}], **consumers, **spec},
        **({"status": status} if owned else {}),
    }


def written(tmp_path: Path, *documents: object) -> Path:
    path = tmp_path / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


def planned(tmp_path: Path, *documents: object, executors: int | None = None) -> Plan:
    found = manifests.read(written(tmp_path, *documents))
    return foresight.foresee(found.groups[BILLING], found.topics, NOW, executors).plan


def owners(plan: Plan) -> dict[str, dict[str, str]]:
    return {
        consumer: {broker: ids for (_, broker), ids in plan.assignment.list_ids(consumer).items()}
        for consumer in plan.assignment
    }


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = frame.main(["plan", *arguments])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


# --- the command


def test_nothing_moves_where_all_is_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, topic(), group(HALVES))
    code, shown = run(capsys, "-f", str(path))
    assert code == NOTHING_MOVES
    assert shown == "billing: 0 queues move\nimbalance 1.00, best possible 1.00\n"


def test_one_more_executor_shows_what_would_move_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, topic(), group(HALVES))
    code, shown = run(capsys, "-f", str(path), "--executors", "3")
    assert code == SOMETHING_MOVES
    assert shown.splitlines() == [
        "billing: 2 queues move",
        "TOPIC   BROKER    QUEUES  FROM       TO         WHY",
        "orders  broker-a  3       billing-0  billing-2  joined",
        "orders  broker-b  3       billing-1  billing-2  joined",
        "imbalance 1.12, best possible 1.12",
    ]


def test_the_example_shows_what_one_more_executor_moves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Path(__file__).parents[3] / "examples" / "files" / "plan.yaml"
    assert run(capsys, "-f", str(path))[0] == NOTHING_MOVES
    code, shown = run(capsys, "-f", str(path), "--executors", "3")
    assert code == SOMETHING_MOVES
    assert shown.startswith("billing: 2 queues move")


def test_the_example_for_runs_is_read() -> None:
    found = manifests.read(Path(__file__).parents[3] / "examples" / "files" / "run.yaml")
    assert list(found.topics) == [Key("default", "orders")]
    assert found.groups[BILLING].spec.job is not None


def test_first_owners_do_not_count_as_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = run(capsys, "-f", str(written(tmp_path, topic(), group())))
    assert code == NOTHING_MOVES
    assert shown.startswith("billing: 0 queues move\n")


def test_programs_get_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, topic(), group(HALVES))
    code, shown = run(capsys, "-f", str(path), "--executors", "3", "-o", "json")
    assert code == SOMETHING_MOVES
    found = json.loads(shown)["billing"]
    assert found["moved"] == 2
    assert found["moves"][0] == {
        "topic": "orders", "broker": "broker-a", "queues": "3",
        "from": "billing-0", "to": "billing-2", "why": "joined",
    }  # fmt: skip
    assert found["assignments"][0]["queues"] == [
        {"topic": "orders", "broker": "broker-a", "ids": "0-2"}
    ]


def test_one_group_of_several_may_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {**group(), "metadata": {"name": "other"}}
    path = written(tmp_path, topic(), group(HALVES), other)
    assert run(capsys, "other", "-f", str(path))[1].startswith("other: 0 queues move\n")
    assert run(capsys, "-f", str(path))[1].startswith("billing: 0 queues move\n")
    code, shown = run(capsys, "nobody", "other", "-f", str(path))
    assert (code, shown) == (
        FAILED,
        f"evenkeel: there is no ConsumerGroup nobody in {path}: it has billing, other\n",
    )


def test_what_is_wrong_with_one_group_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {**group(HALVES, topics=[{"name": "gone"}]), "metadata": {"name": "broken"}}
    path = written(tmp_path, topic(), broken, group(HALVES))
    code, shown = run(capsys, "-f", str(path), "--executors", "3")
    assert code == FAILED
    assert "evenkeel: ConsumerGroup broken: there is no Topic gone" in shown
    assert "billing: 2 queues move" in shown


def test_what_waits_for_the_end_of_a_pause_is_planned_and_the_pause_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paused = group(HALVES, rebalance={"paused": True})
    path = written(tmp_path, topic(), paused)
    code, shown = run(capsys, "-f", str(path), "--executors", "3")
    assert code == SOMETHING_MOVES
    assert shown.endswith(
        "the group is paused: moves that are not forced wait until it is resumed\n"
    )


def test_pods_that_are_to_be_emptied_get_nothing_back(tmp_path: Path) -> None:
    pods = {"podSelector": {"matchLabels": {"app": "a"}}}
    drained = group({"a": {"broker-a": "0-3", "broker-b": "0-3"}, "b": {}}, consumers=pods)
    drained["metadata"] = {"name": "billing", "annotations": {"evenkeel.dev/drain": "b"}}
    assert planned(tmp_path, topic(), drained).moved == 0
    del drained["metadata"]["annotations"]
    assert planned(tmp_path, topic(), drained).moved == 4


def test_a_slot_that_is_empty_keeps_its_queues_for_its_grace(tmp_path: Path) -> None:
    """As with the operator, they go to other consumers only after the grace."""
    found = group(HALVES)
    first, second = found["status"]["assignments"]
    first["executor"], second["executor"] = "1", "2"
    for since, moved in (("2025-12-31T23:59:30Z", 0), ("2025-12-31T23:00:00Z", 4)):
        second["emptySince"] = since
        assert planned(tmp_path, topic(), found).moved == moved


def test_what_kubectl_gives_is_read_from_a_pipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The input is one list of objects, some of them of other kinds."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [topic(), secret, group(HALVES)]}
    code, shown = run(capsys, "-f", str(written(tmp_path, listed)))
    assert (code, shown.splitlines()[0]) == (NOTHING_MOVES, "billing: 0 queues move")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: [", "is not valid YAML"),
        ("a: [", 'manifests.yaml", line 1, column 5'),
        (
            yaml.safe_dump(group(rebalance={"grace": "ten"})),
            "ConsumerGroup billing: Expected a duration, such as 10s or 1m30s - at "
            "`spec.rebalance.grace`",
        ),
        (yaml.safe_dump({**HEAD, "kind": "Topic"}), "a Topic has no metadata.name"),
        (
            yaml.safe_dump(topic(route=3)),
            r"Topic orders: Expected `array | null`, got `int` - at `spec.route`",
        ),
        (
            yaml.safe_dump(group(strategy={"name": "X"})),
            "Invalid enum value 'X' - at `spec.strategy.name`",
        ),
        (
            yaml.safe_dump(group(job={"executers": 3})),
            "ConsumerGroup billing: there is no field spec.job.executers; executors may be meant",
        ),
        (
            yaml.safe_dump(topic(route=[{"broker": "a", "queues": 3}])),
            "Topic orders: there is no field spec.route[0].queues",
        ),
        (yaml.safe_dump(group()), "ConsumerGroup billing: there is no Topic orders"),
        (yaml.safe_dump_all([group(), group()]), "ConsumerGroup billing occurs twice"),
        (yaml.safe_dump({**HEAD, "kind": ["Topic"]}), "there is no kind ['Topic'] in evenkeel.dev"),
        (yaml.safe_dump({"kind": "List", "items": 5}), "there is no ConsumerGroup in"),
        ("[" * 3000, "it is nested too deep"),
        (
            yaml.safe_dump({**topic(), "metadata": {"name": "../x"}}),
            "Topic ../x: Expected `str` matching regex",
        ),
        (
            yaml.safe_dump({**topic(), "metadata": {"name": "orders", "annotations": [1]}}),
            "Topic orders: Expected `object | null`, got `array` - at `metadata.annotations`",
        ),
        (
            yaml.safe_dump(group(topics=[{"name": "../../secrets/x"}])),
            "at `spec.topics[0].name`",
        ),
        (yaml.safe_dump(topic()), "there is no ConsumerGroup in"),
    ],
    ids=[
        "no yaml",
        "place in the file",
        "duration",
        "no name",
        "type",
        "strategy",
        "field",
        "in a list",
        "no topic",
        "twice",
        "kind",
        "list",
        "deep",
        "path",
        "annotations",
        "path in the spec",
        "no group",
    ],
)
def test_what_cannot_be_is_an_error_that_names_the_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    path = tmp_path / "manifests.yaml"
    path.write_text(text)
    code, shown = run(capsys, "-f", str(path))
    assert code == FAILED
    assert complaint in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("count", ["-1", "1001", "many", "1.5"])
def test_a_count_of_executors_that_no_job_may_have_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    path = written(tmp_path, topic(), group(HALVES))
    with pytest.raises(SystemExit) as ended:
        frame.main(["plan", "-f", str(path), "--executors", count])
    assert ended.value.code == MISUSED
    assert f"{count!r} must be a number of executors from 0 to 1000" in capsys.readouterr().err


def test_what_an_api_server_refuses_has_no_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, topic(), group(HALVES, messageModel="Broadcasting"))
    assert run(capsys, "-f", str(path)) == (
        FAILED,
        "evenkeel: ConsumerGroup billing: spec: messageModel Broadcasting is only for groups "
        "without a job\n",
    )


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "-f", "/nowhere.yaml") == (
        FAILED,
        "evenkeel: /nowhere.yaml: No such file or directory\n",
    )


# --- from manifests to the engine


def test_queues_come_from_the_route_or_from_what_was_seen_last(tmp_path: Path) -> None:
    seen = {**topic(nameServers=["mq:9876"]), "status": {"brokers": BROKERS}}
    assert owners(planned(tmp_path, seen, group(HALVES))) == HALVES
    with pytest.raises(ManifestError, match="Topic orders: its queues are not known"):
        planned(tmp_path, topic(nameServers=["mq:9876"]), group())


def test_only_queues_that_may_be_read_count(tmp_path: Path) -> None:
    closed = [BROKERS[0], {**BROKERS[1], "perm": "Write"}]
    found = owners(planned(tmp_path, topic(route=closed), group()))
    assert {broker for share in found.values() for broker in share} == {"broker-a"}


def test_names_at_the_brokers_may_differ_from_the_objects(tmp_path: Path) -> None:
    found = planned(tmp_path, topic(topic="orders%v2", route=BROKERS), group(group="bill"))
    assert list(found.assignment) == ["bill-0", "bill-1"]
    assert {queues.topic for share in found.assignment.values() for queues in share} == {
        "orders%v2"
    }


def test_a_list_of_consumers_has_zones_and_capacities(tmp_path: Path) -> None:
    static = [{"id": "a", "zone": "z2"}, {"id": "b", "zone": "z1"}, {"id": "c", "capacity": 0}]
    found = owners(planned(tmp_path, topic(), group(consumers={"static": static})))
    assert found == {"a": {"broker-b": "0-3"}, "b": {"broker-a": "0-3"}, "c": {}}
    with pytest.raises(ManifestError, match="has no job, so it has no executors"):
        planned(tmp_path, topic(), group(consumers={"static": static}), executors=3)


def test_pods_are_taken_as_the_status_lists_them(tmp_path: Path) -> None:
    pods = {"podSelector": {"matchLabels": {"app": "a"}}}
    with pytest.raises(ManifestError, match="its consumers are pods, which a file does not name"):
        planned(tmp_path, topic(), group(consumers=pods))
    assert owners(planned(tmp_path, topic(), group(HALVES, consumers=pods))) == HALVES
