"""Pauses between attempts, each twice as long as the one before."""

from collections.abc import Iterator


def make_pauses(first: float, longest: float) -> Iterator[float]:
    """Yield growing pauses in seconds, without end."""
    pause = first
    while True:
        yield pause
        pause = min(2 * pause, longest)
