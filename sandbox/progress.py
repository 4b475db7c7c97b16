"""Reports long steps on stderr."""

import sys


def say(text: str) -> None:
    """Write one line at once."""
    print(f"Evenkeel: {text}", file=sys.stderr, flush=True)
