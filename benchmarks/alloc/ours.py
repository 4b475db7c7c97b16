"""
Play a script on our own engine: `python -m benchmarks.alloc.ours STICKY`.

STICKY calls `plan.plan` as the control loop does: it makes a Plan from the last Plan, the ranges of
the routes and the members. STATUS begins cold: it reads the last plan from the text of a status,
and writes the text of the next status. The names of RocketMQ's strategies mean our versions of
these, with one call per topic for the whole group.
"""

import json
import sys
from collections.abc import Callable

from benchmarks.alloc import player, scenarios
from lb_core import Member, Queue, QueueRange, assignment, plan, strategies

STATUS = "STATUS"
_BROKER = "broker-a"

Owners = dict[str, list[Queue]]


class Sticky(player.Planner[plan.Plan]):
    """The plan that the control loop requests."""

    def prepare(self, group: player.Group, previous: plan.Plan | None) -> Callable[[], plan.Plan]:
        """Build ranges and members."""
        queues, members = _make_ranges(group), _make_members(group)
        return lambda: plan.plan(previous, queues, members)

    def count_facts(
        self, group: player.Group, previous: plan.Plan | None, result: plan.Plan
    ) -> player.Facts:
        """Read the plan's own figures, which its tests check."""
        loads = dict(result.assignment.loads)
        return player.Facts(result.moved, *player.find_loads(group.members, loads))


class Status(player.Planner[str]):
    """Reads a status, plans, and writes the next status, as after a restart of the operator."""

    def prepare(self, group: player.Group, previous: str | None) -> Callable[[], str]:
        """Build ranges and members; reading the status belongs to the timed call."""
        queues, members = _make_ranges(group), _make_members(group)
        return lambda: _write_status(plan.plan(_read_status(previous), queues, members))

    def count_facts(self, group: player.Group, previous: str | None, result: str) -> player.Facts:
        """Read the facts from the status text."""
        loads = {
            consumer: sum(map(len, queues)) for consumer, queues in _read_status(result).items()
        }
        moved = json.loads(result)["moved"]
        return player.Facts(moved, *player.find_loads(group.members, loads))


class Compatible(player.Planner[list[Owners]]):
    """Plans with one of RocketMQ's strategies, topic by topic, without a previous plan."""

    def __init__(self, name: str) -> None:
        """Find the strategy by RocketMQ's name."""
        self._strategy = strategies.find_dealer(name)

    def prepare(
        self, group: player.Group, previous: list[Owners] | None
    ) -> Callable[[], list[Owners]]:
        """Build the sorted lists that RocketMQ's classes take."""
        topics = [list(queues) for queues in _make_ranges(group)]
        allocate = self._strategy.deal
        return lambda: [allocate(queues, group.members, {}) for queues in topics]

    def count_facts(
        self, group: player.Group, previous: list[Owners] | None, result: list[Owners]
    ) -> player.Facts:
        """Compare owner by owner."""
        before, after = _map_owners(previous or []), _map_owners(result)
        moved = sum(after.get(queue) != owner for queue, owner in before.items())
        loads = {
            member: sum(len(topic.get(member, ())) for topic in result) for member in group.members
        }
        return player.Facts(moved, *player.find_loads(group.members, loads))


def _make_ranges(group: player.Group) -> list[QueueRange]:
    return [
        QueueRange(scenarios.topic_name(index), _BROKER, 0, count)
        for index, count in enumerate(group.queues)
    ]


def _make_members(group: player.Group) -> list[Member]:
    return [Member(name) for name in group.members]


def _map_owners(topics: list[Owners]) -> dict[Queue, str]:
    return {
        queue: member for owners in topics for member, queues in owners.items() for queue in queues
    }


def _read_status(text: str | None) -> dict[str, list[QueueRange]]:
    if text is None:
        return {}
    return {
        entry["consumer"]: [
            queues
            for each in entry["queues"]
            for queues in assignment.parse_ids(each["topic"], each["broker"], each["ids"])
        ]
        for entry in json.loads(text)["assignments"]
    }


def _write_status(result: plan.Plan) -> str:
    entries = [
        {
            "consumer": consumer,
            "queues": [
                {"topic": topic, "broker": broker, "ids": ids}
                for (topic, broker), ids in result.assignment.list_ids(consumer).items()
            ],
        }
        for consumer in result.assignment
    ]
    return json.dumps({"moved": result.moved, "assignments": entries})


def main(name: str) -> None:
    """Play the script of standard input on one of our planners."""
    match name:
        case "STICKY":
            player.main(Sticky())
        case "STATUS":
            player.main(Status())
        case _:
            player.main(Compatible(name))


if __name__ == "__main__":
    main(sys.argv[1])
