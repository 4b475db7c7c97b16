"""How the operator's process ends when something in it hangs."""

import subprocess
import sys

HANGS = """
import logging, threading
from evenkeel.cluster import app
logging.basicConfig(format="%(levelname)s %(message)s")
with app.end_in_time(0.2):
    threading.Event().wait()
"""


def test_what_hangs_at_the_end_is_ended_by_force_with_an_exit_code_and_a_line_in_the_log() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == (
        "ERROR some work has not ended after 0.2 s, so this process exits by force\n"
    )
