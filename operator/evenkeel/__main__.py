"""The command line: `python -m evenkeel`."""

import sys

from evenkeel.commands.codes import FAILED, NOTHING_MOVES, SOMETHING_MOVES
from evenkeel.commands.frame import main

__all__ = ["FAILED", "NOTHING_MOVES", "SOMETHING_MOVES", "main"]

if __name__ == "__main__":
    sys.exit(main())
