"""Waits for the end of processes that may not be children of this one."""

import os
import select

PATIENCE_SECONDS = 120.0


def ends(pid: int, seconds: float = PATIENCE_SECONDS) -> bool:
    """Wait for the end of the process; return False if it does not end in time."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(watched):
        return bool(select.select([watched], [], [], seconds)[0])
