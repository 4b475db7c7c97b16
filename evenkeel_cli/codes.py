"""Exit codes; docs/commands.md lists them."""

DONE = NOTHING_MOVES = 0
FAILED = 1
SOMETHING_MOVES = 2
"""`plan` only: a queue that has an owner would get another one."""
MISUSED = 64
"""The command line is wrong. EX_USAGE of BSD, because 2 already means SOMETHING_MOVES."""
INTERRUPTED = 130
"""Ended by Ctrl-C, as shells report it."""
