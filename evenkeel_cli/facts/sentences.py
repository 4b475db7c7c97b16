"""An explanation as people read it, and as programs do. Pure."""

from collections.abc import Iterator

from contract.kinds.groups import Assigned, MessageModel
from evenkeel import planning
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


def of_group(explained: Explanation) -> str:
    """Explain all queues of a group, briefly."""
    group = explained.group
    rows = [_row(explained, each) for each in _by_owner(explained)]
    columns = (*OWNERS, "next") if any(each["next"] for each in rows) else OWNERS
    parts = ["\n".join([_headline(group), *_rules(explained)])]
    if rows:
        parts.append(tables.as_table(columns, rows))
    parts.append("\n".join(_ahead(explained)))
    if _is_looked_at(group):
        parts.append(_conditions_table(group))
    return "\n\n".join(filter(None, parts))


def of_queue(explained: Explanation, row: Row) -> str:
    """Explain one queue, sentence by sentence."""
    return "\n".join([*_whys(explained, row), "", _conditions_table(explained.group)])


def facts(explained: Explanation) -> dict[str, object]:
    """Say the same to a program."""
    group = explained.group
    return {
        "namespace": group.head.key.namespace,
        "group": group.head.key.name,
        "epoch": group.status.epoch,
        "rules": _rules(explained),
        "queues": [_facts(explained, each) for each in explained.rows],
        "ahead": _ahead(explained),
        "conditions": _conditions(group),
    }


def _facts(explained: Explanation, row: Row) -> dict[str, object]:
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
        "why": list(_whys(explained, row)),
    }  # fmt: skip


def _is_looked_at(group: ConsumerGroup) -> bool:
    return bool(group.status.conditions)


def _headline(group: ConsumerGroup) -> str:
    status = group.status
    if not _is_looked_at(group):
        return f"{group.head.key}: no operator has looked at it yet; see whether one runs"
    parts = [
        words.counted(status.queues, "queue"),
        words.counted(status.consumers, "consumer"),
        f"epoch {status.epoch}",
    ]
    if group.spec.job is not None:
        parts.append(f"the job follows {status.adopted_epoch}")
        if status.job is not None and status.job.image:
            parts.append(f"its driver runs {status.job.image}")
    parts.append(f"{words.counted(status.moved, 'queue')} moved so far")
    if status.lag is not None:
        parts.append(f"lag {status.lag}")
    return f"{group.head.key}: {', '.join(parts)}"


def _by_owner(explained: Explanation) -> list[Row]:
    """Sort as the status lists owners; what nobody owns comes first."""
    places = {each.consumer: at for at, each in enumerate(explained.group.status.assignments)}
    return sorted(explained.rows, key=lambda row: places[row.owner.consumer] if row.owner else -1)


def _row(explained: Explanation, row: Row) -> dict[str, object]:
    future = row.future
    since, why = _story(explained, row)
    ahead = ""
    if future is not None:
        later = ", later" if future.is_later else ""
        ahead = f"to {future.target or 'nobody'}: {future.reason}{later}"
    return {
        "owner": row.owner.consumer if row.owner else "nobody",
        "queues": _named(row),
        "since": since,
        "why": why,
        "next": ahead,
    }


def _story(explained: Explanation, row: Row) -> tuple[str, str]:
    """Say since when an owner has its queues, and why."""
    told, now = row.told, explained.now
    if row.owner is None:
        return "-", _unowned(explained)
    if told is None:
        if not explained.group.status.moved:
            return "-", "its first owner"
        oldest = explained.past.oldest
        return (f"over {words.age(oldest, now)}", "it has stayed") if oldest else ("-", "-")
    age = words.age(told.at, now)
    if told.target != row.owner.consumer:
        return f"within {age}", f"{told.target} had it before"
    epoch = f"epoch {told.epoch}, " if told.epoch is not None else ""
    because = words.because(told.reason, told.source, told.target)
    return f"{epoch}{age} ago", f"from {told.source}: {because}"


def _named(row: Row) -> str:
    return f"{row.queues.topic}@{row.queues.broker} {format_ids([row.queues])}"


def _whys(explained: Explanation, row: Row) -> Iterator[str]:
    """Answer all questions about a queue, one after the other."""
    if row.owner is None:
        yield f"Nobody owns {_named(row)}: {_unowned(explained)}."
    else:
        yield f"{_named(row)} belongs to {_who(row.owner)}."
        yield _since(explained, row, row.owner)
    yield from _rules(explained)
    yield from _zone(explained, row)
    yield _next(explained, row)


def _who(owner: Assigned) -> str:
    known = (("executor", owner.executor), ("pod", owner.pod), ("zone", owner.zone))
    said = [f"{name} {value}" for name, value in known if value]
    if owner.empty_since:
        return f"{owner.consumer}, a slot that nobody fills now: the other executors read for it"
    return owner.consumer + (f" ({', '.join(said)})" if said else "")


def _since(explained: Explanation, row: Row, owner: Assigned) -> str:
    told, oldest, now = row.told, explained.past.oldest, explained.now
    if told is not None and told.target == owner.consumer:
        epoch = f", in epoch {told.epoch}" if told.epoch is not None else ""
        because = words.because(told.reason, told.source, told.target)
        return (
            f"It came from {told.source} {words.age(told.at, now)} ago{epoch} ({told.trigger}): "
            f"{because}."
        )
    if told is not None:
        return f"{words.age(told.at, now)} ago {told.target} had it; it came there later."
    if not explained.group.status.moved:
        return "It is the queue's first owner: no queue of this group has moved yet."
    if oldest:
        age = words.age(oldest, now)
        return f"It has stayed through all moves that are still known, the first {age} ago."
    return "How it came there is not known any more."


def _unowned(explained: Explanation) -> str:
    unowned = explained.foresight.plan.unowned if explained.foresight else None
    if unowned is not None:
        return unowned.reason
    assigned = conditions.find(explained.group.status.conditions, "Assigned")
    return (assigned.message or assigned.reason) if assigned else "there is no assignment yet"


def _rules(explained: Explanation) -> list[str]:
    """Say who may own queues, and by what they are shared out."""
    group = explained.group
    if group.spec.message_model is MessageModel.BROADCASTING:
        return ["Broadcasting: every consumer has every queue, and nothing ever moves."]
    return [
        f"{words.strategy(group.spec.strategy)}.",
        *(f"{each}." for each in (_eligible(explained), _loads(explained)) if each),
    ]


def _eligible(explained: Explanation) -> str:
    if not _is_looked_at(explained.group):  # who they are stands in the status
        return ""
    people = explained.people
    others = [f"{name} {_why_not(explained, name)}" for name in people.members
              if name not in people.eligible]  # fmt: skip
    text = f"{words.counted(len(people.eligible), 'consumer')} may own queues"
    return text + (f"; not {words.listed(others)}" if others else "")


def _why_not(explained: Explanation, name: str) -> str:
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
    return "(to be emptied)"


def _loads(explained: Explanation) -> str:
    owned = {each.consumer: each for each in explained.group.status.assignments}
    loads = [sum(map(len, planning.owned(owned[name]))) for name in explained.people.eligible]
    if not loads:
        return ""
    least, most = min(loads), max(loads)
    status = explained.group.status
    spread = (
        words.counted(most, "queue")
        if least == most
        else f"{least} to {words.counted(most, 'queue')}"
    )
    they = "It has" if len(loads) == 1 else "Each has"
    evenness = "as even as can be"
    if status.imbalance != status.best_imbalance:
        evenness = f"imbalance {status.imbalance}, and {status.best_imbalance} is possible"
    return f"{they} {spread}: {evenness}"


def _zone(explained: Explanation, row: Row) -> Iterator[str]:
    """Say what the zone of the queue's broker does, where zones count and are known."""
    policy, zone = planning.policy_of(explained.group.spec.strategy), row.queues.zone
    has_zones = "zones" in strategies.find(policy.strategy).uses
    if not has_zones or policy.zones is Zones.IGNORE or not zone:
        return
    people = explained.people
    there = [name for name in people.eligible if people.members[name].zone == zone]
    if not there:
        yield f"Its broker is in zone {zone}, and no consumer that may own queues is."
    elif row.owner is not None and row.owner.zone == zone:
        yield f"Its broker and its owner are in zone {zone}."
    elif row.owner is not None:
        yield (
            f"Its broker is in zone {zone}, as {words.listed(there)}; even loads come before zones."
        )


def _next(explained: Explanation, row: Row) -> str:
    future = row.future
    if explained.foresight is None:
        return f"What a plan would say now is not known: {explained.trouble}"
    if future is None:
        return "Planned now, it would stay."
    target = future.target or "nobody"
    owner = row.owner.consumer if row.owner else None
    reason = words.because(future.reason, owner, future.target)
    if future.is_later:
        return f"It is to go to {target} in a later round, for maxMoves; why: {reason}."
    return f"Planned now, it would go to {target}; why: {reason}."


def _ahead(explained: Explanation) -> list[str]:
    """Say what the next plan would do, and what happened last."""
    group = explained.group
    if group.spec.message_model is MessageModel.BROADCASTING:
        return []
    if explained.foresight is None:
        lines = [f"What a plan would say now is not known: {explained.trouble}"]
    else:
        lines = [f"Planned now, {_would(explained)}.", *explained.foresight.notes]
    running = conditions.find(group.status.conditions, "JobRunning")
    if running is not None and running.holds and group.status.adopted_epoch < group.status.epoch:
        lines.append(
            f"The job follows epoch {group.status.adopted_epoch} as yet; until it follows "
            f"{group.status.epoch}, only what has to move does."
        )
    if (last := group.status.last_rebalance) is not None:
        lines.append(
            f"Last rebalance, {words.age(last.at, explained.now)} ago ({last.trigger}): "
            f"{words.counted(last.moved, 'queue')} moved; {last.reason}"
        )
    return lines


def _would(explained: Explanation) -> str:
    """Say what the next plan would do: to queues with an owner, and to those without."""
    assert explained.foresight is not None
    moved = explained.foresight.plan.moved
    found = sum(
        len(each.queues)
        for each in explained.rows
        if each.owner is None and each.future is not None and each.future.target
    )
    parts = [f"{words.counted(moved, 'queue')} would move"] if moved else []
    if found:
        owner = "an owner" if explained.group.status.epoch else "their first owner"
        parts.append(f"{words.counted(found, 'queue')} would get {owner}")
    return ", and ".join(parts) or "nothing would move"


def _conditions(group: ConsumerGroup) -> list[dict[str, object]]:
    return [
        {
            "condition": each.type,
            "status": each.status.value,
            "reason": each.reason,
            "says": words.meaning(each),
        }
        for each in group.status.conditions
    ]


def _conditions_table(group: ConsumerGroup) -> str:
    rows = _conditions(group)
    return tables.as_table(CONDITIONS, rows) if rows else "No operator has looked at it yet."
