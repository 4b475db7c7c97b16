"""`evenkeel operator`: runs the operator in this process."""

import argparse
import ipaddress

from evenkeel.cluster.drivers import restart_turns
from evenkeel.cluster.leader.lease_terms import LeaderTerms, find_fault
from evenkeel.control.topics import allowed_name_servers
from evenkeel.errors import ManifestError
from evenkeel_cli import options as told
from evenkeel_cli.codes import DONE

DEFAULTS = LeaderTerms()
LEASE_TERMS = (
    (
        "duration",
        DEFAULTS.duration,
        "another candidate takes over a Lease that was not renewed for this long",
    ),
    (
        "deadline",
        DEFAULTS.deadline,
        "a leader that cannot renew the Lease within this time steps down",
    ),
    ("period", DEFAULTS.period, "time between two attempts to renew the Lease"),
)
LAST_PORT = 65535
EXAMPLES = """\
  %(prog)s                                        # all namespaces
  %(prog)s --namespace team-a --namespace team-b  # only these
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(
        parser,
        "Runs the operator until SIGTERM. If several run, a Lease decides which one leads.",
        EXAMPLES,
    )
    parser.add_argument(
        "--namespace", type=told.parse_namespace, action="append", default=[], metavar="NAME",
        help="namespace to watch; may be given several times. Default: all namespaces",
    )  # fmt: skip
    parser.add_argument(
        "--port",
        type=_parse_port,
        default=8080,
        help="port for /metrics and /healthz; 0 means any free port. Default: 8080",
    )
    parser.add_argument("--image", default="", help="image of jobs whose spec has none")
    parser.add_argument(
        "--restarts-at-once", type=_parse_count, default=restart_turns.AT_ONCE, metavar="N",
        help="how many drivers restart at the same time after an upgrade. Default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--lease-namespace", type=told.parse_namespace, metavar="NAME",
        help="namespace of the Lease. Default: the operator's own",
    )  # fmt: skip
    parser.add_argument(
        "--allow-name-servers", type=_parse_pattern, action="append", default=[], metavar="PATTERN",
        help="name servers that Topics may use, such as '*.mq.svc:9876' or 10.0.0.0/8:9876; may be "
        "given several times. Default: any",
    )  # fmt: skip
    parser.add_argument(
        "--members-service", default="", metavar="NAME",
        help="Service through which members of groups reach the leader. It is in the namespace of "
        "the Lease, and has no selector, because the leader writes its endpoint. Default: members "
        "are not served",
    )  # fmt: skip
    parser.add_argument(
        "--members-address", type=_parse_address, metavar="IP",
        help="IP address of this pod, for the endpoint of the members' Service",
    )  # fmt: skip
    parser.add_argument(
        "--members-port", type=_parse_port, default=8443,
        help="port for members. Default: %(default)s",
    )  # fmt: skip
    for name, seconds, what in LEASE_TERMS:
        parser.add_argument(
            f"--lease-{name}", type=float, default=seconds, metavar="SECONDS",
            help=f"{what}. Default: {seconds:g}",
        )  # fmt: skip
    parser.set_defaults(command=_operator, refuse=parser.error)


def _operator(options: argparse.Namespace) -> int:
    terms = LeaderTerms(options.lease_duration, options.lease_deadline, options.lease_period)
    if fault := find_fault(terms):
        options.refuse(fault)
    if bool(options.members_service) != bool(options.members_address):
        options.refuse("give both --members-service and --members-address, or neither")
    from evenkeel.cluster import app  # only this command needs kopf and aiohttp

    members = None
    if options.members_service:
        members = app.MembersOptions(
            options.members_service, options.members_address, options.members_port
        )
    app.start(
        app.Options(
            options.namespace,
            options.port,
            options.image,
            options.lease_namespace,
            options.restarts_at_once,
            terms,
            options.allow_name_servers,
            members,
        )
    )
    return DONE


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 1 to 99999")
    return int(text)


def _parse_pattern(text: str) -> str:
    try:
        return allowed_name_servers.check_pattern(text)
    except ManifestError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parse_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address") from None


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= LAST_PORT):
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a port from 1 to {LAST_PORT}, or 0 for any free port"
        )
    return int(text)
