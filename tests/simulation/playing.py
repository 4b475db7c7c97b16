"""Plays a story; a failure shows the shortest story that fails in the same way."""

from tests.simulation import story
from tests.simulation.flow import FlowWorld
from tests.simulation.story import Story
from tests.simulation.world import BrokenPromiseError, World

WORLDS = (World, FlowWorld)
"""Members that commit to brokers, and tasks of a flow, whose driver commits."""


def play(seed: int, make_world: type[World] = World) -> int:
    """Play the story of a seed; return the number of steps."""
    told = story.draw(seed)
    try:
        return make_world(told).play()
    except BrokenPromiseError as error:
        short = story.shorten(told, lambda each: bool(_failure(each, make_world)))
        raise BrokenPromiseError(f"{error}\n{_failure(short, make_world)}\n{short}") from error


def _failure(told: Story, make_world: type[World]) -> str:
    try:
        make_world(told).play()
    except BrokenPromiseError as error:
        return str(error)
    return ""
