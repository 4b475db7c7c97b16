"""Lists breaks of the rules for a change of balance. Each break violates one rule."""

NOTICED_BY = [
    "tests/unit/mq_client/test_balance.py",
    "tests/unit/evenkeel/control/groups/test_by_message.py",
    "tests/unit/evenkeel/control/groups/test_observer.py",
    "tests/unit/evenkeel/members",
    "tests/unit/follower/test_running_pops.py",
    "tests/unit/follower/popping",
]

CHANGE, STATUS, MOVER, OBSERVER, DESK, COORDINATION, MOVES, POPS, MEMBER = (
    "operator/evenkeel/control/groups/balance_change.py",
    "operator/evenkeel/control/groups/group_status.py",
    "operator/evenkeel/control/groups/position_mover.py",
    "operator/evenkeel/control/groups/observer.py",
    "operator/evenkeel/members/desk.py",
    "operator/evenkeel/members/coordination.py",
    "mq_client/operations/balance.py",
    "follower/popping/running.py",
    "follower/running.py",
)

MUTATIONS = [
    # Nobody reads in the new way before all have stopped reading in the old way.
    (CHANGE, "seen.held.granted_queues + seen.held.leaving_queues", "seen.held.granted_queues"),
    (CHANGE, "seen.held.granted_queues + seen.held.leaving_queues", "seen.held.leaving_queues"),
    (CHANGE, "if seen.held is None or seen.poppers is None:", "if seen.poppers is None:"),
    (CHANGE, "if seen.held is None or seen.poppers is None:", "if seen.held is None:"),
    (CHANGE, "    if any(each.queues for each in group.status.assignments):\n", "    if False:\n"),
    (CHANGE, "    if seen.poppers:\n", "    if False:\n"),
    (CHANGE, "    if seen.conflict is not None and seen.conflict.stops:\n", "    if False:\n"),
    (CHANGE, "planning.is_changing_balance(group) and not planning.has_members(group)", "False"),
    (STATUS, "        if waits is not None or not seen.are_positions_ready:\n", "        if waits is not None:\n"),
    (STATUS, "        if waits is not None or not seen.are_positions_ready:\n", "        if not seen.are_positions_ready:\n"),
    (STATUS, "assignments=[msgspec.structs.replace(each, queues=[]) for each in kept.assignments],", "assignments=kept.assignments,"),
    (STATUS, "        epoch=kept.epoch + had_queues,\n", "        epoch=kept.epoch,\n"),
    (STATUS, "        leftovers=group.status.balance is Balance.MESSAGES,\n        assignments=[],\n", "        leftovers=group.status.balance is Balance.MESSAGES,\n"),
    (STATUS, "leftovers=group.status.balance is Balance.MESSAGES", "leftovers=False"),
    (STATUS, "    if by_message and not group.status.epoch:\n        return []\n", ""),
    (COORDINATION, "planning.is_by_message(group) and not planning.is_changing_balance(group)", "planning.is_by_message(group)"),
    (COORDINATION, "group.status.leftovers or group.status.balance is Balance.MESSAGES", "group.status.leftovers"),
    # A member may pop until a request after the change says no.
    (DESK, "life.may_pop, life.share = True, _choose_share()", "life.share = _choose_share()"),
    (DESK, "        if not self.is_settled:\n            return None\n        return frozenset(", "        return frozenset("),
    (DESK, "            self._dismiss(member, self._core.answer(self._core.sessions[member]))\n", "            pass\n"),
    (MEMBER, "return is_by_message and self._pops is not None", "return is_by_message and not self._is_stopping"),
    (MEMBER, "seconds, pops=self._is_popping)", "seconds)"),
    (MEMBER, "        elif not self._is_popping and not self._has_left:\n", "        elif False:\n"),
    # Positions are moved once for each change, and only while nobody reads.
    (OBSERVER, "if move is None or not move.is_due(group.head.generation):", "if move is None:"),
    (OBSERVER, "if group is None or not planning.is_changing_balance(group):", "if group is None:"),
    (MOVER, "found.ready_for == group.head.generation", "found.ready_for is not None"),
    (MOVER, "            self.forget(key)\n            return None\n", "            return None\n"),
    (MOVER, "move.trouble = None if are_moved else PULLS_WAIT", "move.trouble = None"),
    (MOVER, "self.ready_for != generation and time.monotonic() >= self.due", "self.ready_for is None and time.monotonic() >= self.due"),
    (MOVER, "self.ready_for != generation and time.monotonic() >= self.due", "self.ready_for != generation"),
    (MOVES, "if each.pull_offset > each.consumer_offset", "if True"),
    (MOVES, "if settings.get(ROCKSDB) == \"true\":", "if True:"),
    (MOVES, "    if quiet_seconds < WAITING_PULL_SECONDS:\n", "    if False:\n"),
    (MOVES, "return min(max(offset, stored.min), stored.max)", "return min(offset, stored.max)"),
    (MOVES, "return min(max(offset, stored.min), stored.max)", "return max(offset, stored.min)"),
    (MOVES, "        if isinstance(answer, UNKNOWN):\n            continue\n", ""),
    (MOVES, "        refuse()\n        answers +=", "        answers +="),
    # Leftovers are popped beside the queues, and nothing else is.
    (POPS, "self._sources = (PopSource.RETRIES_V1, PopSource.RETRIES_V2)", "self._sources = (PopSource.RETRIES_V1,)"),
    (POPS, "        if source is PopSource.TOPIC:\n            wanted = find", "        if source:\n            wanted = find"),
    (POPS, "if source is not PopSource.TOPIC and isinstance(error, errors.TopicUnknownError):", "if False:"),
    (OBSERVER, "Waiting(0, each.retries, 0)", "each"),
    (OBSERVER, "if group.status.leftovers else {}", "if False else {}"),
]  # fmt: skip
