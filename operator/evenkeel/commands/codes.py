"""How commands end."""

DONE = NOTHING_MOVES = 0
FAILED = 1
SOMETHING_MOVES = 2
"""Of `plan`: what has an owner would get another."""
