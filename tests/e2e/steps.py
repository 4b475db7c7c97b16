"""Defines and registers the steps of a story. The table in docs/story.md is made from them."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.checked import CheckedShop

Do = Callable[[CheckedShop], None]
Check = Callable[[CheckedShop], object]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: an action and its expected result, and what is checked after it."""

    title: str
    expected: str
    do: Do
    check: Check | None


class Steps:
    """Registers steps. They run in the order in which they are registered."""

    def __init__(self, steps: list[Step]) -> None:
        """Register steps in this list."""
        self._steps = steps

    def __call__(self, title: str, expected: str, check: Check | None = None) -> Callable[[Do], Do]:
        """Register a step."""

        def noted(do: Do) -> Do:
            self._steps.append(Step(title, expected, do, check))
            return do

        return noted
