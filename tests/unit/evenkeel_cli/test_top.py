"""The live picture of `evenkeel top`."""

import io
import os
import signal

import pytest
from rich.console import Console
from rich.text import Text

from evenkeel_cli import top

SHOW_CURSOR = "\x1b[?25h"


class Ended:
    """A view during which the process gets a signal to end."""

    gains_from_another_look = False

    def look(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def draw(self) -> list[Text]:
        return [Text("billing")]

    def describe(self) -> object:
        raise AssertionError("the output is for programs")


def test_a_live_picture_that_is_told_to_end_shows_the_cursor_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(top, "LOOK_SECONDS", 0.0)
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        shown = io.StringIO()
        top._watch(Console(file=shown, force_terminal=True, width=80), Ended())
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert SHOW_CURSOR in shown.getvalue()
    assert seen == [signal.SIGTERM], "the earlier handler of the signal is back"
