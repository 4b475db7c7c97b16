"""`evenkeel run`: runs the groups of a file on this machine."""

import argparse
import asyncio
from pathlib import Path

from evenkeel_cli import options as told
from evenkeel_cli.codes import DONE

EXAMPLES = """\
  %(prog)s -f billing.yaml                   # until Ctrl-C
  %(prog)s -f billing.yaml --state /tmp/try  # where to keep status and logs
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define its arguments."""
    told.describe(
        parser,
        "Runs the groups of a file until Ctrl-C, without Kubernetes: the operator's loop, jobs on "
        "Spark's local-cluster, and a coordinator that members ask. Edits of the file take effect "
        "while it runs.",
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
        help="port on 127.0.0.1 where members of groups ask what they may read; opened when the "
        "file has such a group. 0 is any free one. Default: 9410",
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from evenkeel.embedded import app  # needs the client of brokers, which no other command needs

    asyncio.run(app.run(Path(options.file), Path(options.state), options.members_port))
    return DONE
