"""Exit codes. docs/commands.md describes them."""

DONE = NOTHING_MOVES = 0
FAILED = 1
SOMETHING_MOVES = 2
"""Only `plan` returns this code: a queue that has an owner would get another owner."""
MISUSED = 64
"""The command line is invalid. The code is BSD's EX_USAGE, because 2 means SOMETHING_MOVES."""
INTERRUPTED = 130
"""Ctrl-C has ended the command. Shells report the same code."""
