"""`kubectl evenkeel`: the same commands as a plugin, which is called `kubectl-evenkeel`."""

import sys

from evenkeel_cli import frame

NAME = "kubectl evenkeel"


def main() -> int:
    """Run the command line."""
    return frame.main(name=NAME)


def complete() -> int:
    """Print completions; kubectl calls this as `kubectl_complete-evenkeel`."""
    return frame.main([frame.ASKED_BY_SHELLS, *sys.argv[1:]], NAME)
