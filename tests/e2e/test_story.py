"""The life of groups on a real node, step by step."""

import sys
import time

import pytest

from tests.e2e.checked import CheckedShop
from tests.e2e.steps import Step
from tests.e2e.story import STEPS


@pytest.mark.parametrize("step", STEPS, ids=[step.do.__name__ for step in STEPS])
def test_story(shop: CheckedShop, step: Step, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    step.do(shop)
    if step.check is not None:
        step.check(shop)
    with capsys.disabled():
        seconds = time.monotonic() - started
        sys.stdout.write(f"\n{seconds:6.1f} s  {step.title}: {step.expected}\n")
