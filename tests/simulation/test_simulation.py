"""Random stories of a coordinator and its members: two members never act on the same queue."""

from functools import partial
from typing import Any

import pytest

from contract.kinds.groups import OnOutage
from tests.simulation import playing, story
from tests.simulation.flow import FlowWorld
from tests.simulation.story import ChangeLeader, Freeze, Publish, Stop, Story
from tests.simulation.world import World


@pytest.mark.parametrize(("make_world", "stories"), [(World, 600), (FlowWorld, 200)])
def test_no_story_breaks_a_promise(seed: int, make_world: type[World], stories: int) -> None:
    steps = sum(playing.play(seed + number, make_world) for number in range(stories))
    assert steps > 500 * stories  # in each story, members poll, pull, handle and commit


def test_a_frozen_member_loses_its_queues_to_one_that_reads_them_while_it_sleeps() -> None:
    first = Publish(0.0, {0: 0, 1: 1}, 0.0)
    world = World(Story(1, 2, 2, (first, Freeze(30.0, 0, 25.0))))
    seen: list[tuple[float, str, frozenset[int]]] = []
    check = world.check_taken

    def note(process, taken):  # type: ignore[no-untyped-def]
        seen.append((world.now, process.name, taken))
        check(process, taken)

    world.check_taken = note  # type: ignore[method-assign]
    world.play()
    borrowed = [at for at, name, taken in seen if name == "1" and 0 in taken]
    returned = [at for at, name, taken in seen if name == "0" and 0 in taken and at > 50]
    assert len(borrowed) == len(returned) == 1
    assert 30.0 < borrowed[0] < 41.0  # as soon as the session of the frozen member is over
    assert returned[0] > 55.0


@pytest.mark.parametrize("on_outage", OnOutage)
def test_an_outage_of_the_coordinator_stops_members_only_if_they_are_told_so(
    on_outage: OnOutage,
) -> None:
    first = Publish(0.0, {0: 0, 1: 1}, 0.0)
    world = World(Story(1, 2, 2, (first, ChangeLeader(20.0, 40.0)), on_outage))
    seen: list[tuple[set[str], dict[int, int]]] = []

    def note() -> None:
        seen.append(({each.core.session for each in world.processes}, dict(world.database)))

    for at in (19.0, 35.0, 59.0, 80.0):
        world.at(at, note)
    world.play()
    (before, _), (_, early), (_, late), (after, _) = seen
    if on_outage is OnOutage.KEEP_READING:
        assert after == before
        assert all(late[queue] > early[queue] for queue in (0, 1))
    else:
        assert not after & before
        assert late == early


def test_a_member_that_stops_ends_after_what_it_has_begun() -> None:
    first = Publish(0.0, {0: 0, 1: 1}, 0.0)
    world = World(Story(1, 2, 2, (first, Stop(30.0, 0, 60.0))))
    stopped = world.processes[0]
    world.at(37.0, lambda: seen.append(stopped.is_dead))
    seen: list[bool] = []
    world.play()
    assert seen == [True]


def test_steps_that_were_due_in_a_freeze_are_taken_in_their_order() -> None:
    first = Publish(0.0, {0: 0, 1: 1}, 0.0)
    world = World(Story(1, 2, 2, (first, Freeze(10.0, 0, 10.0), Freeze(15.0, 0, 20.0))))
    taken: list[float] = []
    for at in (12.0, 19.0, 16.0, 34.0, 36.0):
        step = partial(note, taken, at)
        world.at(at, partial(world.processes[0].do, step))
    world.play()
    assert taken == [12.0, 16.0, 19.0, 34.0, 36.0]


def note(taken: list[float], at: float, _: float) -> list[Any]:
    taken.append(at)
    return []


def test_a_story_is_shortened_to_what_it_needs() -> None:
    told = story.draw(5)
    needed = told.events[len(told.events) // 2]
    short = story.shorten(told, lambda each: needed in each.events)
    assert short.events == (needed,)
