"""The metrics of topics and groups, and of the duration of handovers."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from contract.kinds.groups import Balance
from contract.names import PAUSED
from evenkeel import manifests
from evenkeel.control import metrics
from evenkeel.control.groups.census import Census
from evenkeel.objects import ConsumerGroup, Topic
from mq_client.popping import Waiting
from sandbox import ports
from sandbox.waiting import wait_for
from spark_jobs.pipeline.facts import JobFacts
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.metrics import LOOK_SECONDS, HandOver, JobMetrics
from tests.job_objects import a_group, a_topic, of_pods

Document = dict[str, Any]
Shown = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def shown(
    *groups: ConsumerGroup, topics: tuple[Topic, ...] = (), counted: Census | None = None
) -> Shown:
    """
    Read all series as Prometheus does, without the common prefix of their names.

    `counted` is what brokers have reported about each group.
    """
    census = {} if counted is None else {each.head.key: counted for each in groups}
    registry = CollectorRegistry()
    registry.register(metrics.ObjectMetrics(lambda: topics, lambda: groups, lambda: census))
    text = generate_latest(registry).decode()
    return {
        (sample.name.removeprefix("evenkeel_"), tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(found: Shown, name: str, **labels: str) -> float | None:
    """Return the value of one series of the group billing or the topic orders."""
    who = "orders" if name.startswith("topic_") else "billing"
    every = {"namespace": "shop", "name": who} | labels
    return found.get((name, tuple(sorted(every.items()))))


def condition(kind: str, status: str, reason: str) -> Document:
    return {
        "type": kind, "status": status, "reason": reason,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip


def owning(consumer: str, *queues: tuple[str, str]) -> Document:
    listed = [{"topic": "orders", "broker": broker, "ids": ids} for broker, ids in queues]
    return {"consumer": consumer, "queues": listed}


def test_who_owns_what_is_shown_by_consumer_and_broker() -> None:
    owners = [owning("a", ("broker-a", "0-2,8"), ("broker-b", "1")), owning("b")]
    found = shown(of_pods({"epoch": 1, "queues": 5, "assignments": owners}))
    at_a = {"topic": "orders", "broker": "broker-a", "ids": "0-2,8"}
    at_b = {"topic": "orders", "broker": "broker-b", "ids": "1"}
    nothing = {"topic": "", "broker": "", "ids": ""}
    assert of(found, "group_owned_queues", consumer="a", **at_a) == 4
    assert of(found, "group_owned_queues", consumer="a", **at_b) == 1
    assert of(found, "group_owned_queues", consumer="b", **nothing) == 0
    assert of(found, "group_idle_consumers") == 1


def test_in_a_group_by_message_nobody_is_idle_and_no_queue_lacks_an_owner() -> None:
    found = of_pods({"queues": 8, "assignments": [{"consumer": "a"}], "conditions": [
        condition("Assigned", "True", "ByMessage")]})  # fmt: skip
    by_message = replace(found, spec=msgspec.structs.replace(found.spec, balance=Balance.MESSAGES))
    assert of(shown(found), "group_unowned_queues") == 8
    assert of(shown(by_message), "group_unowned_queues") == 0
    assert of(shown(by_message), "group_idle_consumers") == 0


def test_what_waits_for_a_group_by_message_is_shown_by_broker() -> None:
    waiting = {"broker-a": Waiting(5, 1, 2), "broker-b": Waiting(7, 0, 0)}
    a_minute_ago = int(time.time() * 1000) - 60_000
    counted = Census(waiting_at=waiting, oldest_ms_at={"broker-a": a_minute_ago})
    found = shown(of_pods({}), counted=counted)
    assert of(found, "group_lag_messages") == 13
    assert of(found, "group_ready_messages", broker="broker-a") == 5
    assert of(found, "group_retry_messages", broker="broker-a") == 1
    assert of(found, "group_parked_pops", broker="broker-a") == 2
    assert of(found, "group_ready_messages", broker="broker-b") == 7
    age = of(found, "group_oldest_waiting_seconds", broker="broker-a")
    assert age is not None
    assert 60 <= age <= time.time() - a_minute_ago / 1000
    assert of(found, "group_oldest_waiting_seconds", broker="broker-b") == 0
    asked = shown(of_pods({}), counted=Census())
    assert of(asked, "group_lag_messages") is None


def test_dead_letters_are_shown_once_they_were_counted() -> None:
    assert of(shown(of_pods({}), counted=Census(dead_letters=0)), "group_dead_letters") == 0
    assert of(shown(of_pods({}), counted=Census(dead_letters=3)), "group_dead_letters") == 3
    assert of(shown(of_pods({}), counted=Census()), "group_dead_letters") is None


def test_a_long_list_of_queues_is_cut_but_counted_whole() -> None:
    ids = ",".join(map(str, range(0, 400, 2)))
    found = shown(of_pods({"epoch": 1, "assignments": [owning("a", ("broker-a", ids))]}))
    ((labels, count),) = [
        (dict(labels), value)
        for (name, labels), value in found.items()
        if name == "group_owned_queues"
    ]
    assert count == 200
    assert len(labels["ids"]) == metrics.MOST_IDS
    assert labels["ids"].endswith("...")


def test_a_group_says_how_it_is_consumed_and_why_it_is_not_ready() -> None:
    status = {"conditions": [condition("Ready", "False", "Unowned")]}
    found = shown(of_pods(status, group="billing%v2", strategy={"name": "Averagely"}))
    labels = {"group": "billing%v2", "strategy": "Averagely", "mode": "PodSelector"}
    assert of(found, "group_info", **labels) == 1
    assert of(found, "group_ready") == 0
    assert of(found, "group_ready_reason", reason="Unowned") == 1


def test_modes_tell_who_consumes() -> None:
    by_clock: Document = {"mode": "Scheduled", "schedule": {"cron": "* * * * *"}}
    listed = of_pods({}, consumers={"static": [{"id": "a"}]})
    modes = [
        dict(labels)["mode"]
        for group in (a_group(), a_group(**by_clock), listed)
        for (name, labels) in shown(group)
        if name == "group_info"
    ]
    assert modes == ["Streaming", "Scheduled", "Static"]


def test_only_groups_with_a_job_show_what_a_job_has() -> None:
    status = {
        "epoch": 4, "adoptedEpoch": 3, "executors": 3,
        "conditions": [condition("JobRunning", "True", "Running")],
    }  # fmt: skip
    with_job, without = shown(a_group(status=status, trigger="5s")), shown(of_pods(status))
    names = ("adopted_epoch", "job_running", "job_slots", "job_trigger_seconds")
    assert [of(with_job, f"group_{name}") for name in names] == [3, 1, 3, 5]
    assert [of(without, f"group_{name}") for name in names] == [None] * 4
    by_clock: Document = {"mode": "Scheduled", "schedule": {"cron": "* * * * *"}}
    assert of(shown(a_group(**by_clock)), "group_job_trigger_seconds") is None


def test_a_pause_is_shown_wherever_it_was_asked_for() -> None:
    asked: list[Mapping[str, str]] = [{}, {PAUSED: "true"}, {PAUSED: "yes"}]
    values = [of(shown(a_group(annotations=each)), "group_paused") for each in asked]
    assert values == [0, 1, 0]
    assert of(shown(of_pods({}, rebalance={"paused": True})), "group_paused") == 1


def test_the_last_rebalance_is_shown_with_its_trigger() -> None:
    last = {"at": "1970-01-01T00:01:00Z", "trigger": "RouteChanged", "moved": 2, "reason": "a"}
    found = shown(of_pods({"epoch": 2, "moved": 9, "lastRebalance": last}))
    name = "group_last_rebalance_timestamp_seconds"
    assert of(found, name, trigger="RouteChanged") == 60
    assert of(found, "group_moved_queues_total") == 9


def test_a_group_that_has_changed_is_shown_anew_and_one_that_has_gone_no_more() -> None:
    groups = [of_pods({"epoch": 1})]
    collector = metrics.ObjectMetrics(list, lambda: groups)

    def epochs() -> list[float]:
        (family,) = [each for each in collector.collect() if each.name == "evenkeel_group_epoch"]
        return [sample.value for sample in family.samples]

    assert epochs() == [1]
    groups[0] = of_pods({"epoch": 2})
    assert epochs() == [2]
    groups.clear()
    assert epochs() == []


def test_a_time_that_somebody_broke_hides_one_group_alone() -> None:
    last = {"at": "yesterday", "trigger": "Interval", "moved": 2, "reason": "a"}
    broken = of_pods({"epoch": 2, "lastRebalance": last})
    broken = replace(broken, head=replace(broken.head, key=broken.find_key("broken")))
    found = shown(broken, of_pods({"epoch": 7}))
    assert of(found, "group_epoch") == 7
    assert not [labels for _, labels in found if ("name", "broken") in labels]


def test_a_topic_says_how_many_queues_it_has_and_why_it_is_not_ready() -> None:
    seen = a_topic()
    status = {
        "readQueues": 8, "writeQueues": 4,
        "conditions": [condition("Ready", "False", "TopicUnknown")],
    }  # fmt: skip
    topic = manifests.read_topic(
        {
            "kind": "Topic",
            "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {"nameServers": list(seen.spec.name_servers or ())},
            "status": status,
        }
    )
    found = shown(topics=(topic,))
    names = ("topic_read_queues", "topic_write_queues", "topic_ready")
    assert [of(found, name) for name in names] == [8, 4, 0]
    assert of(found, "topic_ready_reason", reason="TopicUnknown") == 1


def test_a_hand_over_lasts_until_the_newest_assignment_is_adopted() -> None:
    watch = HandOver(1)
    looks = [(1, 1, 10.0), (2, 1, 11.0), (3, 1, 12.0), (3, 2, 13.0), (3, 3, 14.5), (3, 3, 15.0)]
    assert [watch.look(*each) for each in looks] == [None, None, None, None, 3.5, None]


def test_a_hand_over_between_two_looks_counts_as_one_of_that_time() -> None:
    watch = HandOver(1)
    assert watch.look(2, 2, 10.0) == LOOK_SECONDS
    assert watch.look(2, 2, 10.5) is None


def test_an_older_assignment_that_is_refused_is_no_hand_over() -> None:
    watch = HandOver(7)
    assert watch.look(3, 7, 10.0) is None
    assert watch.look(3, 7, 11.0) is None


def test_the_driver_measures_hand_overs_while_it_serves() -> None:
    facts = [JobFacts(2, 1, 5, {}, is_pinned=True, tally=Tally(), error=None)]
    shown = JobMetrics(lambda: facts[0], dict)
    claim = ports.claim()
    shown.serve(claim.port)
    claim.release()
    facts[0] = replace(facts[0], adopted_epoch=2)

    def count() -> float | None:
        return shown.registry.get_sample_value("evenkeel_job_handover_seconds_count")

    assert wait_for(count, lambda found: found == 1) == 1
