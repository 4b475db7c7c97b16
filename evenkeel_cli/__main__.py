"""The command line: `python -m evenkeel_cli`."""

import sys

from evenkeel_cli.frame import main

if __name__ == "__main__":
    sys.exit(main())
