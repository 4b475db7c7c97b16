"""Lists specs that an API server accepts, and others that it refuses; offline checks must agree."""

from typing import Any

from contract.kinds import parts
from evenkeel.crds import CONSUMER_GROUP, TOPIC, CrdKind

Spec = dict[str, Any]
SERVERS = {"nameServers": ["mq:9876"]}
QUEUES = {"broker": "broker-a", "readQueues": 8, "writeQueues": 8}
STATIC = {"consumers": {"static": [{"id": "a"}]}}
TOPICS = {"topics": [{"name": "orders"}]}
GROUP: Spec = {**TOPICS, **STATIC}
MEMBERS: Spec = {**TOPICS, "consumers": {"members": {}}}
JOB: Spec = {
    "sink": {"format": "parquet", "path": "/rows"},
    "checkpoint": {"persistentVolumeClaim": "state"},
}


def of_job(**changes: Any) -> Spec:
    return {**TOPICS, "job": {**JOB, **changes}}


def by(**strategy: Any) -> Spec:
    return {**GROUP, "strategy": strategy}


def thing(kind: CrdKind, name: str, spec: Spec) -> Spec:
    head = {"apiVersion": f"{parts.GROUP}/{parts.VERSION}", "kind": kind.name}
    return {**head, "metadata": {"name": name}, "spec": spec}


TAKEN: list[tuple[CrdKind, Spec]] = [
    (TOPIC, SERVERS),
    (TOPIC, {"route": [QUEUES]}),
    (
        TOPIC,
        {**SERVERS, "topic": "orders%v2", "provision": {"readQueues": 8, "writeQueues": 8}},
    ),
    (TOPIC, {**SERVERS, "tls": {}, "credentialsSecretRef": {"name": "acl"}}),
    (CONSUMER_GROUP, GROUP),
    (CONSUMER_GROUP, {**of_job(), "balance": "Messages", "messages": {"batch": 8}}),
    (CONSUMER_GROUP, {**GROUP, "messageModel": "Broadcasting"}),
    (CONSUMER_GROUP, {**TOPICS, "consumers": {"podSelector": {"matchLabels": {"app": "a"}}}}),
    (
        CONSUMER_GROUP,
        {**TOPICS, "consumers": {"members": {"selector": {"matchLabels": {"app": "a"}}}}},
    ),
    (CONSUMER_GROUP, {**MEMBERS, "balance": "Messages", "messages": {"invisibleTime": "10s"}}),
    (CONSUMER_GROUP, {**MEMBERS, "messages": {"maxAttempts": 3}}),
    (CONSUMER_GROUP, by(name="Sticky", sticky={"zones": "Require", "maxMoves": "25%"})),
    (CONSUMER_GROUP, by(name="MachineRoom", machineRoom={"rooms": ["r1"]})),
    (CONSUMER_GROUP, by(name="AveragelyByCircle", pinnedConsumers=["a"])),
    (CONSUMER_GROUP, of_job()),
    (CONSUMER_GROUP, of_job(mode="Scheduled", schedule={"cron": "*/10 * * * *"})),
    (CONSUMER_GROUP, of_job(startFrom="Timestamp", startTimestamp="2026-11-21T08:00:00Z")),
    (CONSUMER_GROUP, of_job(executor={"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}})),
]
REFUSED: list[tuple[CrdKind, Spec, str]] = [
    (TOPIC, {}, "set either nameServers or route"),
    (TOPIC, {**SERVERS, "route": [QUEUES]}, "set either nameServers or route"),
    (TOPIC, {"nameServers": ["mq"]}, "spec.nameServers[0]"),
    (TOPIC, {"nameServers": []}, "should have at least 1 items"),
    (TOPIC, {"nameServers": "mq:9876"}, "must be of type array"),
    (TOPIC, {"route": []}, "should have at least 1 items"),
    (TOPIC, {"route": [QUEUES, QUEUES]}, 'Duplicate value: {"broker":"broker-a"}'),
    (TOPIC, {"route": [{**QUEUES, "perm": "All"}]}, 'supported values: "Read"'),
    (TOPIC, {"route": [QUEUES], "tls": {}}, "tls require nameServers"),
    (TOPIC, {**SERVERS, "topic": "a b"}, "spec.topic"),
    (TOPIC, {**SERVERS, "provision": {"readQueues": 0, "writeQueues": 1}}, "readQueues"),
    (TOPIC, {**SERVERS, "provision": {"readQueues": 4, "writeQueues": 8}}, "must not exceed"),
    (TOPIC, {**SERVERS, "refreshInterval": "soon"}, "spec.refreshInterval"),
    (CONSUMER_GROUP, STATIC, "spec.topics: Required value"),
    (CONSUMER_GROUP, {**STATIC, "topics": []}, "should have at least 1 items"),
    (CONSUMER_GROUP, TOPICS, "set either job or consumers"),
    (CONSUMER_GROUP, {**GROUP, "job": JOB}, "set either job or consumers"),
    (CONSUMER_GROUP, {**TOPICS, "consumers": {}}, "set one of podSelector, static and members"),
    (
        CONSUMER_GROUP,
        {**of_job(), "messageModel": "Broadcasting"},
        "Broadcasting is only for groups",
    ),
    (
        CONSUMER_GROUP,
        {**MEMBERS, "messageModel": "Broadcasting"},
        "only for groups without members",
    ),
    (CONSUMER_GROUP, {**GROUP, "balance": "Messages"}, "balance Messages needs consumers.members"),
    *(
        (CONSUMER_GROUP, {**changed, "balance": "Messages"}, "a job with balance Messages needs")
        for changed in (
            of_job(engine="Batch"),
            of_job(mode="Scheduled", schedule={"cron": "* * * * *"}),
            of_job(startFrom="Latest"),
            {**of_job(), "messages": {"ordered": True}},
        )
    ),
    (CONSUMER_GROUP, {**MEMBERS, "balance": "Each"}, "Unsupported value"),
    (CONSUMER_GROUP, {**GROUP, "messages": {}}, "messages needs consumers.members"),
    (
        CONSUMER_GROUP,
        {**MEMBERS, "balance": "Messages", "messages": {"batch": 33}},
        "should be less than or equal to 32",
    ),
    (CONSUMER_GROUP, by(name="Stickyy"), "Unsupported value"),
    (CONSUMER_GROUP, by(name="Averagely", sticky={}), "sticky requires name: Sticky"),
    (CONSUMER_GROUP, by(name="MachineRoom"), "MachineRoom needs machineRoom"),
    (CONSUMER_GROUP, by(name="Config"), "Config needs config"),
    (CONSUMER_GROUP, by(sticky={"minGain": "ten"}), "minGain"),
    (CONSUMER_GROUP, by(sticky={"maxMoves": "101%"}), "maxMoves"),
    (CONSUMER_GROUP, {**STATIC, "topics": [{"name": "t", "filter": {}}]}, "either tags or sql"),
    (CONSUMER_GROUP, {**GROUP, "rebalance": {"grace": "-1s"}}, "rebalance.grace"),
    (CONSUMER_GROUP, of_job(executors=-1), "executors"),
    (CONSUMER_GROUP, of_job(executors="3"), "must be of type integer"),
    (CONSUMER_GROUP, of_job(executors=10**12), "should be less than or equal to 1000"),
    (CONSUMER_GROUP, of_job(mode="Scheduled"), "schedule is required with mode Scheduled"),
    (CONSUMER_GROUP, of_job(schedule={"cron": "* * * * *"}), "schedule is required with mode"),
    (CONSUMER_GROUP, of_job(startFrom="Timestamp"), "startTimestamp is required with startFrom"),
    *(
        (CONSUMER_GROUP, of_job(startFrom="Timestamp", startTimestamp=text), "startTimestamp")
        for text in ("garbage", "", "2026-02-30T08:00:00Z", "2026-11-21T08:00:00")
    ),
    (CONSUMER_GROUP, of_job(checkpoint={}), "set either persistentVolumeClaim or url"),
    (CONSUMER_GROUP, of_job(sink={"path": "/rows"}), "set either format or configMapRef"),
    *(
        (CONSUMER_GROUP, of_job(transform=each), "set only one of sql, duckdb and configMapRef")
        for each in ({}, {"sql": "SELECT 1", "duckdb": "SELECT 1"})
    ),
    (CONSUMER_GROUP, {**TOPICS, "job": {"sink": {"format": "noop"}}}, "checkpoint: Required"),
    (CONSUMER_GROUP, of_job(driver={"memory": "much"}), "driver.memory"),
]
"""Invalid specs, each with the error of the API server."""
