"""How the core ends a member, and how it treats a queue on which reading has halted."""

import itertools
from dataclasses import replace

from contract.following import Grants, Terms
from contract.kinds.groups import OnOutage
from follower.actions import Abandon, Action, AskCoordinator, Commit, Handle, Locate, PullQueue
from follower.core import REPEAT_SECONDS, FollowerCore
from follower.pieces import Piece

TERMS = Terms(session=10.0, drain=6.0)
Actions = list[Action[str, Piece]]


class Member:
    """A core that reads queue x from offset 5, and whose handler has the offsets 5 to 7."""

    def __init__(self, terms: Terms = TERMS) -> None:
        count = itertools.count(1)
        self.terms = terms
        self.core: FollowerCore[str, Piece] = FollowerCore(lambda: f"s{next(count)}")
        self.life = 1
        self.revision = 0
        self.actions = self.core.tick(0.0)
        self.grant("x", 0.0)
        self.note(self.core.note_begin("x", self.life, 5, 0.0))
        self.note(self.core.note_batch("x", self.life, Piece(5, 8), 0.0))

    def note(self, actions: Actions) -> Actions:
        self.actions += actions
        return actions

    def grant(self, queues: str, now: float) -> Actions:
        asked = [each for each in self.actions if isinstance(each, AskCoordinator)][-1].asked
        self.revision += 1
        grants = Grants(1, self.revision, frozenset(queues))
        return self.note(self.core.hear_answer(asked, grants, self.terms, now))


def find(actions: Actions, *kinds: type) -> list[str]:
    return [type(each).__name__ for each in actions if isinstance(each, kinds)]


WORK = (Locate, PullQueue, Handle, Commit, Abandon)


def test_a_member_that_stops_finishes_and_commits_what_its_handler_has_begun() -> None:
    member = Member()
    assert member.core.stop(6.0, 1.0) == []
    assert member.core.is_leaving("x")
    assert member.core.note_handled("x", 1, 8, 2.0) == [Commit("x", 1, 8)]
    assert find(member.core.note_commit("x", 1, 8, 2.1), *WORK) == ["Abandon"]
    assert member.core.holds == frozenset()


def test_a_member_that_stops_takes_no_new_queue() -> None:
    member = Member()
    member.core.stop(6.0, 1.0)
    assert find(member.grant("xy", 1.1), *WORK) == []
    assert member.core.holds == {"x"}


def test_a_member_that_has_stopped_asks_no_more() -> None:
    member = Member()
    member.core.stop(6.0, 1.0)
    member.core.note_handled("x", 1, 8, 2.0)
    assert find(member.core.note_commit("x", 1, 8, 2.1), AskCoordinator) == []
    assert find(member.core.tick(5.0), AskCoordinator) == []


def test_a_handler_that_does_not_end_is_given_up_after_the_drain() -> None:
    member = Member()
    member.core.stop(6.0, 1.0)
    assert find(member.core.tick(6.9), Abandon) == []
    assert find(member.core.tick(7.0), Abandon) == ["Abandon"]
    assert member.core.holds == frozenset()


def test_a_queue_that_halts_stores_what_was_finished_and_stands_still() -> None:
    member = Member()
    assert member.core.note_halt("x", 1, 6, 1.0) == [Commit("x", 1, 6)]
    assert member.core.note_commit("x", 1, 6, 1.1) == []
    assert member.core.note_batch("x", 1, Piece(8, 9), 1.2) == []
    assert find(member.core.tick(REPEAT_SECONDS - 1), *WORK) == []
    found = find(member.core.tick(REPEAT_SECONDS), *WORK)
    assert found == ["Commit"]  # as for every queue that is held
    assert member.core.holds == {"x"}


def test_a_queue_that_stands_still_is_released_like_any_other() -> None:
    member = Member()
    member.core.note_halt("x", 1, 6, 1.0)
    member.core.note_commit("x", 1, 6, 1.1)
    assert member.grant("", 2.0)[0] == Commit("x", 1, 6, is_again=True)
    assert find(member.core.note_commit("x", 1, 6, 2.1), *WORK) == ["Abandon"]


def test_a_queue_is_not_committed_again_by_one_of_two_readers() -> None:
    """The member keeps reading without a coordinator, so another member may read as well."""
    member = Member(replace(TERMS, on_outage=OnOutage.KEEP_READING))
    member.core.note_handled("x", 1, 8, 1.0)
    member.core.note_commit("x", 1, 8, 1.1)
    assert find(member.core.stop(6.0, 99.0), *WORK) == ["Abandon"]
