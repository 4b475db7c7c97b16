"""`evenkeel operator`: the groups of a cluster."""

import argparse

from evenkeel.cluster import staging
from evenkeel.cluster.terms import Terms, find_fault
from evenkeel.control import allowing
from evenkeel.errors import ManifestError
from evenkeel_cli import options as told
from evenkeel_cli.codes import DONE

DEFAULTS = Terms()
LEASE_TERMS = (
    ("duration", DEFAULTS.duration, "others take over when it was not renewed for so long"),
    ("deadline", DEFAULTS.deadline, "who could not renew it for so long leads no more"),
    ("period", DEFAULTS.period, "it is renewed so often"),
)
LAST_PORT = 65535
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
        "--namespace", type=told.namespace, action="append", default=[], metavar="NAME",
        help="look only here; may be given several times. Default: everywhere",
    )  # fmt: skip
    parser.add_argument(
        "--port",
        type=_port,
        default=8080,
        help="for /metrics and /healthz; 8080; 0 is any free one",
    )
    parser.add_argument("--image", default="", help="of jobs that name none")
    parser.add_argument(
        "--restarts-at-once", type=_count, default=staging.AT_ONCE, metavar="N",
        help="drivers that restart side by side after an upgrade; %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--lease-namespace", type=told.namespace, metavar="NAME",
        help="where the Lease is; where the operator is",
    )  # fmt: skip
    parser.add_argument(
        "--allow-name-servers", type=_pattern, action="append", default=[], metavar="PATTERN",
        help="connect only to these for Topics, as in '*.mq.svc:9876' or 10.0.0.0/8:9876; may be "
        "given several times. Default: to any",
    )  # fmt: skip
    for name, seconds, what in LEASE_TERMS:
        parser.add_argument(
            f"--lease-{name}", type=float, default=seconds, metavar="SECONDS",
            help=f"{what}; {seconds:g}",
        )  # fmt: skip
    parser.set_defaults(command=_operator, refuse=parser.error)


def _operator(options: argparse.Namespace) -> int:
    terms = Terms(options.lease_duration, options.lease_deadline, options.lease_period)
    if fault := find_fault(terms):
        options.refuse(fault)
    from evenkeel.cluster import app  # it needs kopf and aiohttp, which no other command does

    app.start(
        app.Options(
            options.namespace,
            options.port,
            options.image,
            options.lease_namespace,
            options.restarts_at_once,
            terms,
            options.allow_name_servers,
        )
    )
    return DONE


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 1 to 99999")
    return int(text)


def _pattern(text: str) -> str:
    try:
        return allowing.checked(text)
    except ManifestError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= LAST_PORT):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no port: say one from 1 to {LAST_PORT}, or 0 for any free one"
        )
    return int(text)
