"""`evenkeel run`: the groups of a file, here."""

import argparse
import asyncio
from pathlib import Path

from evenkeel_cli import options as told
from evenkeel_cli.codes import DONE

EXAMPLES = """\
  %(prog)s -f billing.yaml                   # until Ctrl-C
  %(prog)s -f billing.yaml --state /tmp/try  # status and logs go there
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Say how it is called."""
    told.explained(
        parser,
        "Runs the groups of a file until Ctrl-C: the loop of the operator, and jobs on "
        "Spark's local-cluster. The file may be edited meanwhile.",
        EXAMPLES,
    )
    parser.add_argument("-f", dest="file", required=True, metavar="FILE", help="manifests")
    parser.add_argument(
        "--state", default=".evenkeel", metavar="FOLDER", help="for status and logs; .evenkeel"
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from evenkeel.embedded import app  # it needs clients of brokers, which no other command does

    asyncio.run(app.run(Path(options.file), Path(options.state)))
    return DONE
