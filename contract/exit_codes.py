"""Exit codes of a driver. They tell the operator or `evenkeel run` whether to start it again."""

DONE = 0
TRY_AGAIN = 75
"""The cause may go away by itself: start the driver again after a delay."""
PERMANENT = 78
"""A user must change something before the driver can run."""
