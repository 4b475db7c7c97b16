"""Plays a story; a failure has the shortest story that fails in the same way."""

from tests.simulation import story
from tests.simulation.story import Story
from tests.simulation.world import BrokenPromiseError, World


def play(seed: int) -> int:
    """Play the story of a seed; return the number of steps."""
    told = story.draw(seed)
    try:
        return World(told).play()
    except BrokenPromiseError as error:
        short = story.shorten(told, is_broken)
        raise BrokenPromiseError(f"{error}\n{_failure(short)}\n{short}") from error


def is_broken(told: Story) -> bool:
    """Whether a promise is broken in this story."""
    return bool(_failure(told))


def _failure(told: Story) -> str:
    try:
        World(told).play()
    except BrokenPromiseError as error:
        return str(error)
    return ""
