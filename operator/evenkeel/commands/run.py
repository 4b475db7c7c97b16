"""`evenkeel run`: the groups of a file, here."""

import argparse
import asyncio
from pathlib import Path

from evenkeel.commands.codes import DONE
from evenkeel.commands.parsing import Commands


def add(commands: Commands) -> None:
    """Say how it is called."""
    run = commands.add_parser(
        "run",
        help="run the groups of a file here, without Kubernetes",
        description="Runs the groups of a file until Ctrl-C: the loop of the operator, and jobs on "
        "Spark's local-cluster. The file may be edited meanwhile.",
    )
    run.add_argument("-f", dest="file", required=True, metavar="FILE", help="manifests")
    run.add_argument(
        "--state", default=".evenkeel", metavar="FOLDER", help="for status and logs; .evenkeel"
    )
    run.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from evenkeel.embedded import app

    asyncio.run(app.run(Path(options.file), Path(options.state)))
    return DONE
