"""How the core of a member reacts to answers, time and results."""

import itertools
from typing import Any, NamedTuple

from contract.following import Asked, Grants, Refusal, Terms
from contract.kinds.groups import OnOutage
from follower.actions import Abandon, Action, AskCoordinator, Commit, Handle, Locate, PullQueue
from follower.core import PAUSE_SECONDS, REPEAT_SECONDS, FollowerCore
from follower.pace import EACH_QUEUE, IN_ORDER, CommitPace

TERMS = Terms(session=10.0, drain=6.0)
Actions = list[Action[str, "Span"]]


class Span(NamedTuple):
    stop: int


class Member:
    """A follower's core, with its last request."""

    def __init__(self, pace: CommitPace = EACH_QUEUE) -> None:
        count = itertools.count(1)
        self.core: FollowerCore[str, Span] = FollowerCore(lambda: f"s{next(count)}", pace)
        self.asked: Asked[str] | None = None
        self.revision = 0
        self.terms = TERMS
        self.note(self.core.tick(0.0))

    def note(self, actions: Actions) -> Actions:
        for each in actions:
            if isinstance(each, AskCoordinator):
                self.asked = each.asked
        return actions

    def granted(self, queues: str, now: float) -> Actions:
        assert self.asked is not None
        self.revision += 1
        grants = Grants(1, self.revision, frozenset(queues))
        return self.note(self.core.hear_answer(self.asked, grants, self.terms, now))

    def reading(self, now: float = 1.0) -> int:
        """Get queue `x`, begin at offset 5, and return the `life` of the action `Locate`."""
        life = only(self.granted("x", now), Locate).life
        self.note(self.core.note_begin("x", life, 5, now))
        return int(life)

    def released(self, now: float) -> Actions:
        """Lose queue `x` while nothing is in flight: the core commits the queue's offset again."""
        commit = only(self.granted("", now), Commit)
        assert commit.is_again
        return self.note(self.core.note_commit("x", commit.life, commit.offset, now))


def only(actions: Actions, kind: type[Any]) -> Any:
    (found,) = [each for each in actions if isinstance(each, kind)]
    return found


def kinds(actions: Actions) -> list[str]:
    return [type(each).__name__ for each in actions]


def test_it_asks_at_once_and_holds_nothing() -> None:
    assert Member().asked == Asked("s1", 1, 0, frozenset())


def test_a_granted_queue_is_located_pulled_handled_and_committed() -> None:
    member = Member()
    located = only(member.granted("x", 1.0), Locate)
    pull = only(member.core.note_begin("x", located.life, 5, 1.0), PullQueue)
    assert (pull.queue, pull.offset) == ("x", 5)
    found = member.core.note_batch("x", pull.life, Span(8), 1.1)
    assert only(found, Handle).batch == Span(8)
    assert only(found, PullQueue).offset == 8  # the next messages come while the handler works
    member.core.note_handled("x", pull.life, 8, 1.2)
    assert only(member.core.tick(5.5), Commit).offset == 8


def test_a_queue_that_stands_still_is_committed_again_from_time_to_time() -> None:
    member = Member()
    member.reading()
    assert kinds(member.core.tick(2.0)) == []
    assert member.core.find_next_change() == REPEAT_SECONDS
    assert only(member.core.tick(REPEAT_SECONDS), Commit).offset == 5


def test_messages_wait_while_the_handler_is_at_work_and_no_more_are_pulled() -> None:
    member = Member()
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    assert kinds(member.core.note_batch("x", life, Span(9), 1.2)) == []
    found = member.core.note_handled("x", life, 8, 1.3)
    assert only(found, Handle).batch == Span(9)
    assert only(found, PullQueue).offset == 9


def test_the_handler_is_not_called_while_a_commit_is_in_progress() -> None:
    member = Member()
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    member.core.note_batch("x", life, Span(9), 1.2)
    member.core.note_handled("x", life, 8, 1.3)
    member.core.note_batch("x", life, Span(10), 1.4)
    commit = only(member.core.tick(2.0), Commit)
    assert kinds(member.core.note_handled("x", life, 9, 2.1)) == []
    assert only(member.core.note_commit("x", life, commit.offset, 2.2), Handle).batch == Span(10)


def test_a_flow_calls_the_handler_while_a_commit_is_in_progress() -> None:
    member = Member(CommitPace(1.0, most=None, calls_during_commit=True))
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    member.core.note_batch("x", life, Span(9), 1.2)
    member.core.note_handled("x", life, 8, 1.3)
    member.core.note_batch("x", life, Span(10), 1.4)
    only(member.core.tick(2.0), Commit)
    assert only(member.core.note_handled("x", life, 9, 2.1), Handle).batch == Span(10)


def test_what_is_popped_in_order_is_committed_after_each_call() -> None:
    member = Member(IN_ORDER)
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    member.core.note_batch("x", life, Span(9), 1.2)
    found = member.core.note_handled("x", life, 8, 1.3)
    assert only(found, Commit).offset == 8
    assert "Handle" not in kinds(found)
    found = member.core.note_commit("x", life, 8, 1.4)
    assert only(found, Handle).batch == Span(9)
    assert "Commit" not in kinds(found)
    member.core.note_handled("x", life, 9, 1.5)
    member.core.note_commit("x", life, 9, 1.6)
    assert "Commit" not in kinds(member.core.tick(1.6 + REPEAT_SECONDS))
    assert kinds(member.granted("", 8.0)) == ["Abandon", "AskCoordinator"], "nothing is repeated"


def test_an_idle_queue_is_released_once_its_offset_is_committed_again() -> None:
    member = Member()
    member.reading()
    found = member.released(2.0)
    assert kinds(found) == ["Abandon", "AskCoordinator"]
    assert member.asked is not None
    assert (member.asked.holds, member.asked.revision) == (frozenset(), 2)


def test_a_busy_queue_is_released_when_its_work_is_committed() -> None:
    member = Member()
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    member.granted("", 2.0)
    assert member.core.holds == {"x"}
    commit = only(member.note(member.core.note_handled("x", life, 8, 3.0)), Commit)
    assert member.core.holds == {"x"}
    found = member.note(member.core.note_commit("x", life, commit.offset, 3.1))
    assert kinds(found) == ["Abandon", "AskCoordinator"]
    assert member.core.holds == frozenset()


def test_messages_that_wait_are_not_begun_when_their_queue_is_to_leave() -> None:
    member = Member()
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    member.core.note_batch("x", life, Span(9), 1.1)
    member.granted("", 2.0)
    assert "Handle" not in kinds(member.core.note_handled("x", life, 8, 3.0))


def test_a_handler_that_does_not_return_is_given_up_after_the_drain() -> None:
    member = Member()
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    member.granted("", 2.0)
    assert "Abandon" not in kinds(member.core.tick(7.9))
    assert "Abandon" in kinds(member.note(member.core.tick(8.0)))
    assert kinds(member.core.note_handled("x", life, 8, 8.1)) == []


def test_a_session_counts_from_when_the_request_was_sent() -> None:
    member = Member()  # the request was sent at 0
    member.granted("x", 4.0)
    assert member.core.may_act(9.4)
    assert not member.core.may_act(9.5)


def test_when_the_session_is_over_everything_is_dropped_and_a_new_one_begins() -> None:
    member = Member()
    life = member.reading(1.0)
    found = member.note(member.core.note_batch("x", life, Span(8), 30.0))  # the process was frozen
    assert kinds(found) == ["Abandon", "AskCoordinator"]
    assert member.asked == Asked("s2", 1, 0, frozenset())
    assert member.core.note_handled("x", life, 8, 30.1) == []


def test_an_answer_that_comes_after_its_session_is_over_grants_nothing() -> None:
    member = Member()
    found = member.granted("x", 12.0)
    assert "Locate" not in kinds(found)
    assert member.core.holds == frozenset()


def test_an_answer_to_a_request_that_was_replaced_counts_for_nothing() -> None:
    member = Member()
    life = member.reading()
    old = member.asked
    assert old is not None
    member.released(2.0)  # a new request replaces the old one
    found = member.core.hear_answer(old, Grants(1, 9, frozenset("xy")), TERMS, 2.1)
    assert (found, member.core.holds, life) == ([], frozenset(), 1)


def test_a_queue_that_comes_back_begins_a_new_life() -> None:
    member = Member()
    first = member.reading()
    member.released(2.0)
    second = only(member.granted("x", 2.2), Locate).life
    assert second != first
    assert member.core.note_begin("x", first, 99, 2.3) == []


def test_a_refusal_that_ends_the_session_drops_everything() -> None:
    member = Member()
    member.reading()
    assert member.asked is not None
    found = member.core.hear_refusal(member.asked, Refusal.SESSION_OVER, 2.0)
    assert kinds(found) == ["Abandon"]
    assert kinds(member.note(member.core.tick(2.0 + PAUSE_SECONDS))) == ["AskCoordinator"]
    assert member.asked == Asked("s2", 1, 0, frozenset())


def test_a_request_without_an_answer_is_repeated_after_a_pause() -> None:
    member = Member()
    assert member.asked is not None
    assert member.core.hear_failure(member.asked, 1.0) == []
    assert member.core.find_next_change() == 1.0 + PAUSE_SECONDS
    member.note(member.core.tick(1.0 + PAUSE_SECONDS))
    assert member.asked.number == 2


def test_abandoned_work_names_its_life() -> None:
    member = Member()
    life = member.reading()
    assert only(member.released(2.0), Abandon) == Abandon("x", life)


KEEP_READING = Terms(session=10.0, drain=6.0, on_outage=OnOutage.KEEP_READING)


def test_with_keep_reading_a_member_goes_on_while_no_coordinator_answers() -> None:
    member = Member()
    member.terms = KEEP_READING
    life = member.reading(1.0)
    found = member.core.note_batch("x", life, Span(8), 30.0)
    assert only(found, Handle).batch == Span(8)
    assert member.core.holds == {"x"}


def test_with_keep_reading_a_member_stops_when_another_process_has_its_name() -> None:
    member = Member()
    member.terms = KEEP_READING
    member.reading(1.0)
    assert member.asked is not None
    assert member.core.hear_refusal(member.asked, Refusal.ANOTHER_SESSION, 5.0) == []
    member.note(member.core.tick(30.0))
    found = member.core.hear_refusal(member.asked, Refusal.ANOTHER_SESSION, 30.1)
    assert kinds(found) == ["Abandon"]


def test_with_keep_reading_an_answer_that_is_heard_too_late_grants_nothing() -> None:
    """A frozen process receives the answer when its queues may have been lent to others."""
    member = Member()
    member.terms = KEEP_READING
    member.reading(1.0)
    found = member.granted("xy", 30.0)
    assert kinds(found) == ["AskCoordinator"]
    assert member.core.holds == {"x"}
    assert kinds(member.granted("xy", 30.1)) == ["Locate", "AskCoordinator"]


def test_with_keep_reading_a_member_that_stops_without_a_session_commits_nothing_again() -> None:
    """Another member may hold the queue, and the commit would set the queue's offset back."""
    member = Member()
    member.terms = KEEP_READING
    member.reading(1.0)
    assert "Commit" not in kinds(member.core.stop(6.0, 30.0))
    assert member.core.holds == frozenset()


def test_a_queue_whose_position_was_moved_begins_anew_and_stays_held() -> None:
    member = Member()
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    found = member.core.note_moved_on("x", life, 1.2)
    assert kinds(found) == ["Abandon", "Locate"]
    begun = only(found, Locate).life
    assert only(member.core.note_begin("x", begun, 9, 1.3), PullQueue).offset == 9
    assert member.core.note_handled("x", life, 8, 1.4) == []
    assert member.core.note_moved_on("x", life, 1.4) == []


def test_a_queue_that_leaves_is_released_though_its_position_was_moved() -> None:
    member = Member()
    life = member.reading()
    member.core.note_batch("x", life, Span(8), 1.1)
    member.granted("", 1.2)
    found = member.note(member.core.note_moved_on("x", life, 1.3))
    assert kinds(found) == ["Abandon", "AskCoordinator"]
    assert member.asked is not None
    assert member.asked.holds == frozenset()
