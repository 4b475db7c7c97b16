"""Which queues a coordinator grants to which member, step by step."""

from contract.following import Asked, Grants, Refusal, Terms
from coordinator.group import GroupCoordinator
from coordinator.sessions import HeldQueues

TERMS = Terms(session=10.0, drain=6.0)
START = 100.0
SETTLED = START + TERMS.session


def settled(**owners: str) -> GroupCoordinator[str]:
    """Return a coordinator after its start, with this assignment as epoch 1."""
    group: GroupCoordinator[str] = GroupCoordinator(TERMS, START, TERMS.session)
    group.publish(1, owners, ["a", "b", "c"], START)
    group.tick(SETTLED)
    return group


def asked(session: str, number: int, revision: int = 0, holds: str = "") -> Asked[str]:
    return Asked(session, number, revision, frozenset(holds))


def granted(answer: Grants[str] | Refusal) -> str:
    assert isinstance(answer, Grants), answer
    return "".join(sorted(answer.queues))


def test_a_member_gets_what_it_owns() -> None:
    group = settled(x="a", y="b")
    # The queue `y` is lent, because `b` has no session.
    assert granted(group.ask("a", asked("s", 1), SETTLED)) == "xy"


def test_a_lent_queue_goes_back_when_it_is_released() -> None:
    group = settled(x="a", y="b")
    group.ask("a", asked("s", 1), SETTLED)
    assert granted(group.ask("b", asked("t", 1), SETTLED + 1)) == ""
    assert granted(group.ask("a", asked("s", 2, 1, "xy"), SETTLED + 2)) == "x"
    assert granted(group.ask("b", asked("t", 2), SETTLED + 3)) == ""  # `a` still holds the queue
    group.ask("a", asked("s", 3, 2, "x"), SETTLED + 4)
    assert granted(group.ask("b", asked("t", 3), SETTLED + 5)) == "y"


def test_a_release_counts_only_from_a_member_that_has_seen_the_withdrawal() -> None:
    group = settled(x="a", y="b")
    group.ask("a", asked("s", 1), SETTLED)
    group.ask("b", asked("t", 1), SETTLED + 1)
    group.ask("a", asked("s", 2, 0, ""), SETTLED + 2)  # sent before `a` saw any grant
    assert granted(group.ask("b", asked("t", 2), SETTLED + 3)) == ""


def test_a_request_that_was_overtaken_is_stale() -> None:
    group = settled(x="a")
    group.ask("a", asked("s", 1), SETTLED)
    group.ask("a", asked("s", 3, 1, "x"), SETTLED + 1)
    assert group.ask("a", asked("s", 2, 1, ""), SETTLED + 2) is Refusal.STALE


def test_a_silent_session_ends_and_its_queues_are_lent() -> None:
    group = settled(x="a", y="b")
    group.ask("a", asked("s", 1), SETTLED)
    group.ask("b", asked("t", 1), SETTLED)
    group.ask("a", asked("s", 2, 1, "xy"), SETTLED + 1)
    group.ask("a", asked("s", 3, 2, "x"), SETTLED + 1)
    assert granted(group.ask("b", asked("t", 2), SETTLED + 9)) == "y"
    assert group.find_next_change() == SETTLED + 11
    assert granted(group.ask("b", asked("t", 3, 1, "y"), SETTLED + 11)) == "xy"
    assert group.ask("a", asked("s", 4, 2, "x"), SETTLED + 12) is Refusal.SESSION_OVER


def test_a_process_that_is_known_to_have_ended_is_not_waited_for() -> None:
    group = settled(x="a")
    group.ask("a", asked("s", 1), SETTLED)
    group.end("a", None, SETTLED + 1)
    assert granted(group.ask("b", asked("t", 1), SETTLED + 1)) == "x"


def test_a_session_that_left_cannot_come_back_by_a_late_request() -> None:
    group = settled(x="a")
    group.ask("a", asked("s", 1), SETTLED)
    group.end("a", "s", SETTLED + 1)
    assert group.ask("a", asked("s", 1), SETTLED + 2) is Refusal.SESSION_OVER
    assert granted(group.ask("a", asked("u", 1), SETTLED + 3)) == "x"


def test_leaving_with_the_id_of_another_session_ends_nothing() -> None:
    group = settled(x="a")
    group.ask("a", asked("s", 1), SETTLED)
    group.end("a", "other", SETTLED + 1)
    assert granted(group.ask("a", asked("s", 2, 1, "x"), SETTLED + 2)) == "x"


def test_a_second_process_of_the_same_name_waits() -> None:
    group = settled(x="a")
    group.ask("a", asked("s", 1), SETTLED)
    assert group.ask("a", asked("t", 1), SETTLED + 1) is Refusal.ANOTHER_SESSION
    assert granted(group.ask("a", asked("u", 1), SETTLED + 10)) == "x"


def test_a_new_leader_leaves_queues_with_those_who_hold_them() -> None:
    group: GroupCoordinator[str] = GroupCoordinator(TERMS, START, TERMS.session)
    group.publish(7, {"x": "a", "y": "a"}, ["a", "b"], START)
    assert granted(group.ask("b", asked("t", 41, 9, "x"), START + 1)) == "x"
    assert granted(group.ask("a", asked("s", 17, 5, ""), START + 2)) == ""
    answer = group.ask("a", asked("s", 18, 5, ""), SETTLED)
    assert granted(answer) == "y"
    assert granted(group.ask("b", asked("t", 42, 9, "x"), SETTLED + 0.5)) == ""


def test_after_the_start_a_stranger_that_holds_something_must_begin_anew() -> None:
    group = settled(x="a")
    assert group.ask("a", asked("s", 5, 3, "x"), SETTLED + 1) is Refusal.SESSION_OVER


def test_what_was_never_granted_counts_for_nothing() -> None:
    group = settled(x="a", y="b")
    group.ask("a", asked("s", 1), SETTLED)
    group.ask("b", asked("t", 1), SETTLED)
    group.ask("a", asked("s", 2, 2, "x"), SETTLED + 1)
    assert granted(group.ask("a", asked("s", 3, 2, "xyz"), SETTLED + 2)) == "x"
    assert granted(group.ask("b", asked("t", 2), SETTLED + 3)) == "y"


def test_a_revision_from_the_future_changes_nothing() -> None:
    group = settled(x="a")
    group.ask("a", asked("s", 1), SETTLED)
    assert group.ask("a", asked("s", 2, 99, ""), SETTLED + 1) is Refusal.UNKNOWN_REVISION
    assert granted(group.ask("a", asked("s", 3, 1, "x"), SETTLED + 2)) == "x"


def test_an_older_assignment_is_ignored() -> None:
    group = settled(x="a")
    group.publish(0, {"x": "b"}, ["a", "b"], SETTLED)
    assert group.epoch == 1
    assert granted(group.ask("a", asked("s", 1), SETTLED)) == "x"


def test_a_queue_that_nobody_should_read_is_withdrawn() -> None:
    group = settled(x="a", y="a")
    group.ask("a", asked("s", 1), SETTLED)
    group.publish(2, {"x": "a"}, ["a"], SETTLED + 1)
    assert granted(group.ask("a", asked("s", 2, 1, "xy"), SETTLED + 1)) == "x"


def test_a_draining_member_borrows_nothing() -> None:
    group: GroupCoordinator[str] = GroupCoordinator(TERMS, START, TERMS.session)
    group.publish(1, {"x": "a"}, ["a"], START)
    group.tick(SETTLED)
    assert granted(group.ask("b", asked("t", 1), SETTLED)) == ""


def test_lent_queues_are_spread() -> None:
    group = settled(v="c", w="c", x="c", y="c", z="a")
    for member in "cab":
        group.ask(member, asked(member, 1), SETTLED)
    group.end("c", None, SETTLED)
    assert {name: len(each.grants) for name, each in group.sessions.items()} == {"a": 3, "b": 2}


def test_a_member_that_does_not_release_is_not_renewed_and_its_session_ends() -> None:
    group = settled(x="a")
    group.ask("a", asked("s", 1), SETTLED)
    group.publish(2, {"x": "b"}, ["a", "b"], SETTLED)
    now, number = SETTLED, 2
    group.ask("b", asked("t", 1), now)
    refused_at = None
    while refused_at is None:
        now, number = now + 3, number + 1
        answer = group.ask("a", asked("s", number, 2, "x"), now)
        group.ask("b", asked("t", number), now)
        if answer is Refusal.RELEASE_OVERDUE:
            refused_at = now
    assert refused_at > SETTLED + TERMS.drain + TERMS.session
    group.ask("b", asked("t", 98), refused_at + 5)
    assert granted(group.ask("b", asked("t", 99), refused_at + TERMS.session)) == "x"


def test_those_with_news_are_told() -> None:
    group = settled(x="a", y="a")
    group.ask("a", asked("s", 1), SETTLED)
    group.take_changed()
    group.publish(2, {"x": "a", "y": "b"}, ["a", "b"], SETTLED)
    assert group.take_changed() == set()  # `b` has no session, so `a` keeps the queue
    group.ask("b", asked("t", 1), SETTLED)
    assert group.take_changed() == {"a"}


def test_queues_are_counted_where_they_are() -> None:
    group = settled(x="a", y="b", z="b")
    assert group.count_held() == HeldQueues(waiting_queues=3)
    group.ask("a", asked("s", 1), SETTLED)
    assert group.count_held() == HeldQueues(sessions=1, granted_queues=3, lent_queues=2)
    group.ask("b", asked("t", 1), SETTLED + 1)
    assert group.count_held() == HeldQueues(sessions=2, granted_queues=1, leaving_queues=2)
    group.ask("a", asked("s", 2, 1, "xyz"), SETTLED + 2)
    group.ask("a", asked("s", 3, 2, "x"), SETTLED + 4)
    assert group.count_held() == HeldQueues(sessions=2, granted_queues=3)
    assert group.take_releases() == [3.0, 3.0]
    assert group.take_releases() == []


def test_only_a_session_that_ends_by_silence_is_named_as_silent() -> None:
    group = settled(x="a", y="b")
    for member in "abc":
        group.ask(member, asked(member, 1), SETTLED)
    group.end("a", "a", SETTLED + 1)
    group.end("b", None, SETTLED + 1)
    assert group.take_silent() == []
    group.tick(SETTLED + TERMS.session)
    assert group.take_silent() == ["c"]
    assert group.take_silent() == []


def test_a_queue_that_was_leaving_is_free_when_its_session_ends() -> None:
    group = settled(x="a", y="b")
    group.ask("a", asked("s", 1), SETTLED)
    group.ask("b", asked("t", 1), SETTLED + 1)
    group.end("a", None, SETTLED + 3)
    assert group.take_releases() == [2.0]
    assert group.count_held().leaving_queues == 0


def test_who_comes_later_may_borrow_and_what_is_lent_stays() -> None:
    group = settled(x="absent")
    group.ask("a", asked("s", 1), SETTLED)
    group.ask("later", asked("t", 1), SETTLED)
    group.lend(["later"], SETTLED)
    assert granted(group.ask("a", asked("s", 2, 1, "x"), SETTLED)) == "x"
    group.end("a", "s", SETTLED)
    assert granted(group.ask("later", asked("t", 2), SETTLED)) == "x"


def test_queues_that_nobody_could_borrow_are_lent_to_the_first_who_may() -> None:
    group: GroupCoordinator[str] = GroupCoordinator(TERMS, START, TERMS.session)
    group.publish(1, {"x": "absent"}, [], START)
    assert granted(group.ask("new", asked("s", 1), SETTLED)) == ""
    group.lend(["new"], SETTLED)
    assert granted(group.ask("new", asked("s", 2), SETTLED)) == "x"
