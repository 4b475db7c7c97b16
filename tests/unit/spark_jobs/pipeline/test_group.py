"""What a job sends to brokers for its group, and when it sends everything again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from mq_client.errors import DeadlineError, MqError, NoNameServerError
from mq_client.values import MessageQueue
from spark_jobs import options
from spark_jobs.pipeline import group
from spark_jobs.pipeline.group import JobGroup

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)


@dataclass
class Brokers:
    """Records what is sent to brokers; a broker that is down records nothing."""

    away: set[str] = field(default_factory=set)
    told: list[Mapping[MessageQueue, int]] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    knows_route: bool = True

    def commit(self, at: Mapping[MessageQueue, int]) -> dict[str, MqError]:
        heard = {queue: end for queue, end in at.items() if queue.broker not in self.away}
        if heard:
            self.told.append(heard)
        return {queue.broker: DeadlineError("away") for queue in at if queue.broker in self.away}

    def join(self, name: str, client_id: str, subscriptions: Mapping[str, Any]) -> "Brokers":
        if not self.knows_route:
            raise NoNameServerError("none answers")
        who, _, where = client_id.partition("@")
        origin = where.partition("#")[2]
        self.members = [f"{name} {who} {origin} {sorted(subscriptions)}"]
        return self

    def leave(self) -> None:
        self.members = []


class Told(JobGroup):
    def __init__(self, brokers: Brokers) -> None:
        given = {"nameServers": "mq:9876", "topics": "orders", "group": "g"}
        reading = options.parse_reading(given, is_stream=True)
        super().__init__(brokers, reading, "billing", "2026-01-01T00:00:00Z/1")  # type: ignore[arg-type]  # it uses no more
        self._observer = brokers  # type: ignore[assignment]  # it uses no more

    def hear(self, ends: Mapping[MessageQueue, int]) -> None:
        """Update the group, and wait until the update is done."""
        self.update(ends)
        assert self._work is not None
        self._work.result()


def test_only_news_are_told() -> None:
    brokers = Brokers()
    job = Told(brokers)
    for ends in ({A: 1, B: 2}, {A: 1, B: 2}, {A: 5, B: 2}):
        job.hear(ends)
    assert brokers.told == [{A: 1, B: 2}, {A: 5}]


def test_of_a_topic_that_the_job_reads_no_more_nothing_is_told() -> None:
    """Other members of the group may read that topic."""
    brokers = Brokers()
    job = Told(brokers)
    job.hear({A: 1, MessageQueue("payments", "broker-a", 0): 7})
    assert brokers.told == [{A: 1}]
    assert [each.rpartition(" ")[2] for each in brokers.members] == ["['orders']"]


def test_all_is_told_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed broker loses the offsets that it has not persisted."""
    monkeypatch.setattr(group, "COMMIT_ALL_SECONDS", 0.0)
    brokers = Brokers()
    job = Told(brokers)
    job.hear({A: 1})
    job.hear({A: 1})
    assert brokers.told == [{A: 1}, {A: 1}]


def test_a_broker_that_is_away_holds_up_no_other_and_hears_it_at_the_end() -> None:
    brokers = Brokers(away={"broker-b"})
    job = Told(brokers)
    job.hear({A: 1, B: 1})
    brokers.away.clear()
    job.hear({A: 2, B: 1})
    assert brokers.told == [{A: 1}, {A: 2}]
    job.leave({A: 2, B: 1})
    assert brokers.told[2:] == [{B: 1}]


def test_a_job_is_a_member_of_its_group_until_it_ends() -> None:
    brokers = Brokers()
    job = Told(brokers)
    job.hear({A: 1})
    assert brokers.members == ["g evenkeel-billing 2026-01-01T00:00:00Z/1 ['orders']"]
    job.leave({A: 1})
    assert brokers.members == []


def test_without_a_name_server_offsets_are_told_all_the_same() -> None:
    brokers = Brokers(knows_route=False)
    job = Told(brokers)
    job.hear({A: 1})
    assert (brokers.told, brokers.members) == ([{A: 1}], [])
