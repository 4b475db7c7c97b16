"""`kubectl evenkeel`: the same command line; kubectl finds it as `kubectl-evenkeel`."""

import sys

from evenkeel_cli import frame

NAME = "kubectl evenkeel"


def main() -> int:
    """Do what the command line says."""
    return frame.main(name=NAME)


def complete() -> int:
    """Offer what may come next, as kubectl asks it of `kubectl_complete-evenkeel`."""
    return frame.main([frame.ASKED_BY_SHELLS, *sys.argv[1:]], NAME)
