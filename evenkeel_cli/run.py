"""`evenkeel run`: runs the groups of a file on this machine."""

import argparse
import asyncio
from pathlib import Path

from evenkeel_cli import options as told
from evenkeel_cli.codes import DONE

EXAMPLES = """\
  %(prog)s -f billing.yaml                   # runs until Ctrl-C
  %(prog)s -f billing.yaml --state /tmp/try  # keeps status and logs there
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(
        parser,
        "Runs the groups of a file until Ctrl-C, without Kubernetes. It runs the operator's loop, "
        "jobs on Spark's local-cluster, and a coordinator for members. If you edit the file, the "
        "change takes effect at once.",
        EXAMPLES,
    )
    parser.add_argument("-f", dest="file", required=True, metavar="FILE", help="file of manifests")
    parser.add_argument(
        "--state",
        default=".evenkeel",
        metavar="FOLDER",
        help="folder for status and logs. Default: .evenkeel",
    )
    parser.add_argument(
        "--members-port",
        type=int,
        default=9410,
        metavar="PORT",
        help="port on 127.0.0.1 at which members ask which queues they may read. The port is "
        "opened only if the file has a group with members. 0 means any free port. Default: 9410",
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from evenkeel.embedded import app  # imported here, because it loads much

    asyncio.run(app.run(Path(options.file), Path(options.state), options.members_port))
    return DONE
