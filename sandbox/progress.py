"""Tells on stderr what takes long, in one wording."""

import sys


def say(text: str) -> None:
    """Write one line at once, whoever reads it."""
    print(f"Evenkeel: {text}", file=sys.stderr, flush=True)
