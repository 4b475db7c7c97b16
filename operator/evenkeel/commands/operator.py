"""`evenkeel operator`: the groups of a cluster."""

import argparse
import asyncio
import logging

import kopf

from evenkeel.cluster import app, lease
from evenkeel.commands import options as told
from evenkeel.commands.codes import DONE

LEASE_TERMS = (
    ("duration", 15.0, "others take over when it was not renewed for so long"),
    ("deadline", 10.0, "who could not renew it for so long leads no more"),
    ("period", 2.0, "it is renewed so often"),
)
EXAMPLES = """\
  %(prog)s                                        # everywhere
  %(prog)s --namespace team-a --namespace team-b  # there alone
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Say how it is called."""
    told.explained(
        parser,
        "Runs the operator until SIGTERM. Several may run: one leads, by a Lease.",
        EXAMPLES,
    )
    parser.add_argument(
        "--namespace", action="append", default=[], metavar="NAME",
        help="look only here; may be given several times. Default: everywhere",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=8080, help="for /metrics and /healthz; 8080")
    parser.add_argument("--image", default="", help="of jobs that name none")
    parser.add_argument(
        "--lease-namespace", metavar="NAME", help="where the Lease is; where the operator is"
    )
    for name, seconds, what in LEASE_TERMS:
        parser.add_argument(
            f"--lease-{name}", type=float, default=seconds, metavar="SECONDS",
            help=f"{what}; {seconds:g}",
        )  # fmt: skip
    parser.set_defaults(command=_operator)


def _operator(options: argparse.Namespace) -> int:
    terms = lease.Terms(options.lease_duration, options.lease_deadline, options.lease_period)
    found = app.Options(
        options.namespace, options.port, options.image, options.lease_namespace, terms
    )
    kopf.configure(log_format=kopf.LogFormat.JSON)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # else a line for each event
    asyncio.run(app.run(found))
    return DONE
