"""Lists breaks of the rules for a change of balance. Each break violates one rule."""

NOTICED_BY = [
    "tests/unit/mq_client/test_balance.py",
    "tests/unit/evenkeel/control/groups/test_group_status.py",
    "tests/unit/evenkeel/control/groups/test_observer.py",
    "tests/unit/evenkeel/members",
    "tests/unit/follower/test_running.py",
    "tests/unit/follower/popping",
]

CHANGE, STATUS, OBSERVER, DESK, COORDINATION, MOVES, POPS, MEMBER = (
    "operator/evenkeel/control/groups/balance_change.py",
    "operator/evenkeel/control/groups/group_status.py",
    "operator/evenkeel/control/groups/observer.py",
    "operator/evenkeel/members/desk.py",
    "operator/evenkeel/members/coordination.py",
    "mq_client/operations/balance.py",
    "follower/popping/running.py",
    "follower/running.py",
)

MUTATIONS = [
    # Nobody reads in the new way before all have stopped to read in the old way.
    (CHANGE, "seen.held.granted_queues + seen.held.leaving_queues", "seen.held.granted_queues"),
    (CHANGE, "seen.held.granted_queues + seen.held.leaving_queues", "seen.held.leaving_queues"),
    (CHANGE, "    if seen.held is None:\n", "    if False:\n"),
    (CHANGE, "    if any(each.queues for each in group.status.assignments):\n", "    if False:\n"),
    (CHANGE, "    if not group.status.epoch:\n", "    if False:\n"),
    (CHANGE, "    if seen.poppers is None:\n", "    if False:\n"),
    (CHANGE, "    if seen.poppers:\n", "    if False:\n"),
    (STATUS, "        if waits is not None or not seen.is_moved:\n", "        if waits is not None:\n"),
    (STATUS, "        if waits is not None or not seen.is_moved:\n", "        if not seen.is_moved:\n"),
    (STATUS, "assignments=[msgspec.structs.replace(each, queues=[]) for each in kept.assignments],", "assignments=kept.assignments,"),
    (STATUS, "        epoch=kept.epoch + had_queues,\n", "        epoch=kept.epoch,\n"),
    (STATUS, "        leftovers=group.status.balance is Balance.MESSAGES,\n        assignments=[],\n", "        leftovers=group.status.balance is Balance.MESSAGES,\n"),
    (STATUS, "leftovers=group.status.balance is Balance.MESSAGES", "leftovers=False"),
    (COORDINATION, "planning.is_by_message(group) and not planning.is_changing_balance(group)", "planning.is_by_message(group)"),
    (COORDINATION, "group.status.leftovers or group.status.balance is Balance.MESSAGES", "group.status.leftovers"),
    # A member may pop until a request after the change says no.
    (DESK, "            life.may_pop = True\n", "            pass\n"),
    (DESK, "        if not self.is_settled:\n            return None\n        return frozenset(", "        return frozenset("),
    (DESK, "            life.may_pop = pops\n            self.held_changed()\n", "            life.may_pop = pops\n"),
    (MEMBER, "return is_by_message and self._pops is not None", "return is_by_message and not self._is_stopping"),
    (MEMBER, "seconds, pops=self._is_popping)", "seconds)"),
    # Positions are moved once for each change, and only while nobody reads.
    (OBSERVER, "notes.moved_for == group.head.generation or balance_change.explain_wait(group, seen)", "notes.moved_for == group.head.generation"),
    (OBSERVER, "notes.moved_for == group.head.generation or balance_change.explain_wait(group, seen)", "balance_change.explain_wait(group, seen)"),
    (OBSERVER, "is_moved=notes.moved_for == group.head.generation,", "is_moved=notes.moved_for is not None,"),
    (MOVES, "if each.pull_offset > each.consumer_offset", "if True"),
    (MOVES, "        if settings.get(ROCKSDB) != \"true\":\n            continue\n", ""),
    (MOVES, "    _require_all(offset for _, offset in found)\n", ""),
    (MOVES, "        if not isinstance(offset, UNKNOWN)\n", ""),
    # Leftovers are popped beside the queues, and nothing else is.
    (POPS, "self._sources = (PopSource.RETRIES_V1, PopSource.RETRIES_V2)", "self._sources = (PopSource.RETRIES_V1,)"),
    (POPS, "        if source is PopSource.TOPIC:\n            wanted = find", "        if source:\n            wanted = find"),
    (POPS, "if source is not PopSource.TOPIC and isinstance(error, errors.TopicUnknownError):", "if False:"),
    (OBSERVER, "each._replace(ready=0)", "each"),
    (OBSERVER, "if group.status.leftovers else {}", "if False else {}"),
]  # fmt: skip
