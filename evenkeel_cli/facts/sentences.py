"""Formats an explanation as text for people, or as data for programs. Pure."""

from collections.abc import Iterator

from contract.conditions import ConditionType
from contract.kinds.groups import Assigned
from evenkeel import planning, rebalances
from evenkeel.control import conditions
from evenkeel.objects import ConsumerGroup
from evenkeel_cli.facts import words
from evenkeel_cli.facts.explaining import Explanation, Row
from lb_core import strategies
from lb_core.assignment import format_ids
from lb_core.policy import Zones
from mq_client import tables

OWNERS = ("owner", "queues", "since", "why")
CONDITIONS = ("condition", "status", "reason", "says")


def explain_group(explained: Explanation) -> str:
    """Explain all queues of a group in a table."""
    group = explained.group
    rows = [_make_row(explained, each) for each in _sort_by_owner(explained)]
    columns = (*OWNERS, "next") if any(each["next"] for each in rows) else OWNERS
    parts = ["\n".join([_write_headline(group), *_list_rules(explained)])]
    if rows:
        parts.append(tables.to_table(columns, rows))
    parts.append("\n".join(_look_ahead(explained)))
    if _has_status(group):
        parts.append(_make_conditions_table(group))
    return "\n\n".join(filter(None, parts))


def explain_queue(explained: Explanation, row: Row) -> str:
    """Explain one queue in sentences."""
    return "\n".join([*_answer_all(explained, row), "", _make_conditions_table(explained.group)])


def describe(explained: Explanation) -> dict[str, object]:
    """Return the explanation as data."""
    group = explained.group
    return {
        "namespace": group.head.key.namespace,
        "group": group.head.key.name,
        "epoch": group.status.epoch,
        "rules": _list_rules(explained),
        "queues": [_describe_row(explained, each) for each in explained.rows],
        "ahead": _look_ahead(explained),
        "conditions": _list_conditions(group),
    }


def _describe_row(explained: Explanation, row: Row) -> dict[str, object]:
    told, future = row.told, row.future
    return {
        "topic": row.queues.topic,
        "broker": row.queues.broker,
        "ids": format_ids([row.queues]),
        "zone": row.queues.zone,
        "owner": row.owner.consumer if row.owner else None,
        "since": told and {
            "epoch": told.epoch, "at": told.at, "from": told.source, "reason": told.reason
        },
        "next": future and {
            "to": future.target, "reason": future.reason, "later": future.is_later
        },
        "why": list(_answer_all(explained, row)),
    }  # fmt: skip


def _has_status(group: ConsumerGroup) -> bool:
    return bool(group.status.conditions)


def _write_headline(group: ConsumerGroup) -> str:
    status = group.status
    if not _has_status(group):
        return f"{group.head.key}: no operator has reconciled it yet; check that one runs"
    parts = [
        words.count(status.queues, "queue"),
        words.count(status.consumers, "consumer"),
    ]
    is_planned = not planning.explain_no_plan(group)
    if is_planned:
        parts.append(f"epoch {status.epoch}")
    if group.spec.job is not None:
        parts.append(f"the job follows {status.adopted_epoch}")
        if status.job is not None and status.job.image:
            parts.append(f"its driver runs {status.job.image}")
    if is_planned:
        parts.append(f"{words.count(status.moved, 'queue')} moved so far")
    if status.lag is not None:
        parts.append(f"lag {status.lag}")
    return f"{group.head.key}: {', '.join(parts)}"


def _sort_by_owner(explained: Explanation) -> list[Row]:
    """Sort by owner, in the order of the status. Queues without an owner come first."""
    places = {each.consumer: at for at, each in enumerate(explained.group.status.assignments)}
    return sorted(explained.rows, key=lambda row: places[row.owner.consumer] if row.owner else -1)


def _make_row(explained: Explanation, row: Row) -> dict[str, object]:
    future = row.future
    since, why = _tell_story(explained, row)
    ahead = ""
    if future is not None:
        later = ", later" if future.is_later else ""
        ahead = f"to {future.target or 'nobody'}: {future.reason}{later}"
    return {
        "owner": row.owner.consumer if row.owner else "nobody",
        "queues": _name_queues(row),
        "since": since,
        "why": why,
        "next": ahead,
    }


def _tell_story(explained: Explanation, row: Row) -> tuple[str, str]:
    """Describe since when an owner has its queues, and why."""
    told, now = row.told, explained.now
    if row.owner is None:
        return "-", _explain_unowned(explained)
    if told is None:
        if not explained.group.status.moved:
            return "-", "first owner"
        oldest = explained.past.oldest
        return (f"over {words.format_age(oldest, now)}", "has not moved") if oldest else ("-", "-")
    age = words.format_age(told.at, now)
    if told.target != row.owner.consumer:
        return f"within {age}", f"{told.target} had it before"
    epoch = f"epoch {told.epoch}, " if told.epoch is not None else ""
    because = words.explain_reason(told.reason, told.source, told.target)
    return f"{epoch}{age} ago", f"from {told.source}: {because}"


def _name_queues(row: Row) -> str:
    return f"{row.queues.topic}@{row.queues.broker} {format_ids([row.queues])}"


def _answer_all(explained: Explanation, row: Row) -> Iterator[str]:
    """Write everything that is known about a queue, one sentence for each fact."""
    if row.owner is None:
        yield f"{_name_queues(row)} has no owner: {_explain_unowned(explained)}."
    else:
        owner = _describe_owner(row.owner, explained.group)
        yield f"{_name_queues(row)} belongs to {owner}."
        yield _tell_since(explained, row, row.owner)
    yield from _list_rules(explained)
    yield from _describe_zone(explained, row)
    yield _tell_next(explained, row)


def _describe_owner(owner: Assigned, group: ConsumerGroup) -> str:
    known = (("executor", owner.executor), ("pod", owner.pod), ("zone", owner.zone))
    said = [f"{name} {value}" for name, value in known if value]
    if owner.empty_since:
        has_members = planning.has_members(group)
        without, others = ("a member", "members") if has_members else ("an executor", "executors")
        return f"{owner.consumer}, a slot without {without}: other {others} read its queues"
    return owner.consumer + (f" ({', '.join(said)})" if said else "")


def _tell_since(explained: Explanation, row: Row, owner: Assigned) -> str:
    told, oldest, now = row.told, explained.past.oldest, explained.now
    if told is not None and told.target == owner.consumer:
        epoch = f", in epoch {told.epoch}" if told.epoch is not None else ""
        because = words.explain_reason(told.reason, told.source, told.target)
        age = words.format_age(told.at, now)
        return f"It came from {told.source} {age} ago{epoch} ({told.trigger}): {because}."
    if told is not None:
        return (
            f"{words.format_age(told.at, now)} ago it went to {told.target}; it moved again later."
        )
    if not explained.group.status.moved:
        return "This is its first owner: no queue of this group has moved yet."
    if oldest:
        age = words.format_age(oldest, now)
        return f"It has not moved in the last {age}. Earlier moves are not known."
    return "Its last move is no longer known."


def _explain_unowned(explained: Explanation) -> str:
    unowned = explained.foresight.plan.unowned if explained.foresight else None
    if unowned is not None:
        return unowned.reason
    assigned = conditions.find(explained.group.status.conditions, ConditionType.ASSIGNED)
    return (assigned.message or assigned.reason) if assigned else "there is no assignment yet"


def _list_rules(explained: Explanation) -> list[str]:
    """Describe the strategy, the consumers that may own queues, and their loads."""
    group = explained.group
    found = words.describe_waiting(group, explained.now)
    measured = [f"{found.capitalize()}."] if found else []
    if dead := words.describe_dead_letters(group):
        measured.append(f"{dead}.")
    measured += [f"{each}." for each in words.describe_stores(group)]
    if why := planning.explain_no_plan(group):
        return [f"{why}.", *measured]
    return [
        f"{words.describe_strategy(group.spec.strategy)}.",
        *(
            f"{each}."
            for each in (_describe_eligible(explained), _describe_loads(explained))
            if each
        ),
        *measured,
    ]


def _describe_eligible(explained: Explanation) -> str:
    if not _has_status(explained.group):  # without it, the consumers are not known
        return ""
    people = explained.people
    others = [f"{name} {_explain_exclusion(explained, name)}" for name in people.members
              if name not in people.eligible]  # fmt: skip
    text = f"{words.count(len(people.eligible), 'consumer')} may own queues"
    return text + (f"; not {words.join_names(others)}" if others else "")


def _explain_exclusion(explained: Explanation, name: str) -> str:
    member, pinned = explained.people.members[name], explained.group.spec.strategy.pinned_consumers
    if member.capacity == 0:
        return "(capacity 0)"
    if pinned and name not in pinned:
        return "(not in pinnedConsumers)"
    if name in explained.people.waiting:
        grace = explained.group.spec.rebalance.grace
        return f"(its slot is empty, and it keeps its queues for {grace})"
    if member.lost_for_seconds is not None:
        return "(its slot is empty)"
    return "(draining)"


def _describe_loads(explained: Explanation) -> str:
    owned = {each.consumer: each for each in explained.group.status.assignments}
    loads = [sum(map(len, planning.read_owned(owned[name]))) for name in explained.people.eligible]
    if not loads:
        return ""
    least, most = min(loads), max(loads)
    status = explained.group.status
    spread = (
        words.count(most, "queue") if least == most else f"{least} to {words.count(most, 'queue')}"
    )
    they = "It has" if len(loads) == 1 else "Each has"
    evenness = "as balanced as possible"
    if status.imbalance != status.best_imbalance:
        evenness = f"imbalance {status.imbalance}; {status.best_imbalance} is possible"
    return f"{they} {spread}: {evenness}"


def _describe_zone(explained: Explanation, row: Row) -> Iterator[str]:
    """Describe how zones affect the queue, if the strategy uses zones and the zone is known."""
    policy, zone = planning.build_policy(explained.group.spec.strategy), row.queues.zone
    has_zones = "zones" in strategies.find(policy.strategy).uses
    if not has_zones or policy.zones is Zones.IGNORE or not zone:
        return
    people = explained.people
    there = [name for name in people.eligible if people.members[name].zone == zone]
    if not there:
        yield f"Its broker is in zone {zone}, in which no consumer may own queues."
    elif row.owner is not None and row.owner.zone == zone:
        yield f"Its broker and its owner are in zone {zone}."
    elif row.owner is not None:
        yield (
            f"Its broker is in zone {zone}, like {words.join_names(there)}; balanced loads come "
            "before zones."
        )


def _tell_next(explained: Explanation, row: Row) -> str:
    future = row.future
    if explained.foresight is None:
        return f"The next plan cannot be computed: {explained.trouble}"
    if future is None:
        return "The next plan would not move it."
    target = future.target or "nobody"
    owner = row.owner.consumer if row.owner else None
    reason = words.explain_reason(future.reason, owner, future.target)
    if future.is_later:
        return f"It will go to {target} in a later round, because of maxMoves; reason: {reason}."
    return f"The next plan would move it to {target}; reason: {reason}."


def _look_ahead(explained: Explanation) -> list[str]:
    """Describe the next plan and the last rebalance."""
    group = explained.group
    if planning.explain_no_plan(group):
        return []
    if explained.foresight is None:
        lines = [f"The next plan cannot be computed: {explained.trouble}"]
    else:
        lines = [f"In the next plan, {_describe_plan(explained)}.", *explained.foresight.notes]
    running = conditions.find(group.status.conditions, ConditionType.JOB_RUNNING)
    if running is not None and running.holds and group.status.adopted_epoch < group.status.epoch:
        lines.append(
            f"The job still follows epoch {group.status.adopted_epoch}; until it follows "
            f"{group.status.epoch}, only forced moves happen."
        )
    if (last := group.status.last_rebalance) is not None:
        lines.append(
            f"Last rebalance, {words.format_age(last.at, explained.now)} ago ({last.trigger}): "
            f"{words.count(last.moved, 'queue')} moved; {rebalances.describe(last)}"
        )
    return lines


def _describe_plan(explained: Explanation) -> str:
    """Describe how many queues would move in the next plan, and how many would get an owner."""
    assert explained.foresight is not None
    moved = explained.foresight.plan.moved
    found = sum(
        len(each.queues)
        for each in explained.rows
        if each.owner is None and each.future is not None and each.future.target
    )
    parts = [f"{words.count(moved, 'queue')} would move"] if moved else []
    if found:
        owner = "an owner" if explained.group.status.epoch else "their first owner"
        parts.append(f"{words.count(found, 'queue')} would get {owner}")
    return ", and ".join(parts) or "no queue would move"


def _list_conditions(group: ConsumerGroup) -> list[dict[str, object]]:
    return [
        {
            "condition": each.type,
            "status": each.status.value,
            "reason": each.reason,
            "says": words.explain_condition(each),
        }
        for each in group.status.conditions
    ]


def _make_conditions_table(group: ConsumerGroup) -> str:
    rows = _list_conditions(group)
    return tables.to_table(CONDITIONS, rows) if rows else "No operator has reconciled it yet."
