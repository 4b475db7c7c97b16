"""How a driver ends, as whoever starts it reads it."""

DONE = 0
TRY_AGAIN = 75
"""What stood in the way may pass: start it again after a pause."""
PERMANENT = 78
"""Somebody must change something first."""
