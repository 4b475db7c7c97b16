"""Show on a terminal what is being measured."""

import sys


def say(text: str) -> None:
    """Overwrite the previous text. Without a terminal, do nothing."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
