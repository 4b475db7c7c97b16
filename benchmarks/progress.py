"""Tells whoever watches what is measured now."""

import sys


def say(text: str) -> None:
    """Write it over what was said before; nothing where nobody watches."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
