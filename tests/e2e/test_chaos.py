"""Random events for jobs and followers. `--seed N` repeats the events, not their timing."""

import contextlib
import random
import sys
import time

import pytest

from tests.e2e import job_story, messages_story
from tests.e2e.chaos import EVENTS
from tests.e2e.checked import CheckedShop

COUNT = 40
MOST_PAUSE_SECONDS = 12.0
AT_ONCE = 2
"""How many events may last at the same time."""
CHECKED_EACH = 10


def test_nothing_is_lost_and_nothing_comes_twice_whatever_happens(
    shop: CheckedShop, seed: int, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"{time.monotonic() - started:7.1f} s  {text}\n")

    started = time.monotonic()
    tell(f"seed {seed}")
    for begin in (job_story.install, job_story.rocketmq, job_story.begin):
        begin(shop)
    shop.apply_file("flow.yaml")
    shop.check_flow()
    messages_story.begin_poppers(shop)
    tell("all is there")
    for number in range(1, COUNT + 1):
        with contextlib.ExitStack() as lasting:
            for name in rng.sample(sorted(EVENTS), rng.randint(1, AT_ONCE)):
                tell(f"{number}: {name}")
                # Each event has its own generator, because its draws depend on the current pods.
                own = random.Random(rng.getrandbits(32))
                lasting.enter_context(EVENTS[name](shop, own))
            time.sleep(rng.uniform(1.0, MOST_PAUSE_SECONDS))  # events come at random times
        if number % CHECKED_EACH == 0:
            for status in (shop.check(), shop.check_flow()):
                tell(f"lost 0, duplicated 0, epoch {status['epoch']}, {status['queues']} queues")
            shop.poppers.check(most_twice=None)
            handled = shop.poppers.count_handled()
            twice = handled.total() - len(handled)
            tell(f"followers: lost 0, {twice} of {len(handled)} handled twice")
