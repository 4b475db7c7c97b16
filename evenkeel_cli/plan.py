"""
`evenkeel plan`: shows which queues would move.

Exit codes: 0 if no queue that has an owner would move, 2 if one would move, 1 if planning fails.
"""

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from contract.kinds.jobs import MOST_EXECUTORS
from evenkeel import manifests, planning
from evenkeel.errors import EvenkeelError
from evenkeel.manifests import Manifests
from evenkeel.objects import ConsumerGroup
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading
from evenkeel_cli.codes import FAILED, NOTHING_MOVES, SOMETHING_MOVES
from evenkeel_cli.facts import foresight, plans
from evenkeel_cli.facts.foresight import Foresight

TEXT = (
    "Shows what a new plan of groups would change, computed from their current status. It changes "
    "nothing. The exit code is 0 if no queue that has an owner would move, 2 if at least one "
    "would, and 1 if a group cannot be planned."
)
EXAMPLES = """\
  %(prog)s                           # all groups of the namespace
  %(prog)s billing --executors 5     # if its job had five executors
  %(prog)s -A -o json                # all namespaces, for programs
  %(prog)s -f billing.yaml           # from a file, without a cluster
  kubectl get mqt,mqcg -o yaml | %(prog)s -f -
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(parser, TEXT, EXAMPLES)
    parser.add_argument(
        "groups", type=told.parse_name, metavar="GROUP", nargs="*",
        help="names of ConsumerGroups. Default: all",
    )  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-f", dest="file", metavar="FILE", help="file with manifests; - means stdin")
    where.add_argument(
        "--cluster", action="store_true", help="read the cluster; this is the default"
    )
    parser.add_argument(
        "--executors",
        type=_parse_executors,
        metavar="N",
        help="plan as if each job had N executors",
    )
    told.add_output_option(parser)
    told.add_cluster_options(parser, everywhere=True)
    parser.set_defaults(command=_plan)


def _parse_executors(text: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", text) or int(text) > MOST_EXECUTORS:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number of executors from 0 to {MOST_EXECUTORS}"
        )
    return int(text)


def _plan(options: argparse.Namespace) -> int:
    found, where = _read(options)
    now = datetime.now(UTC)
    planned: dict[str, Foresight] = {}
    failed = False
    for group in _choose_groups(found, options.groups, where):
        try:
            planned[str(group.head.key)] = foresight.foresee(
                group, found.topics, now, options.executors
            )
        except EvenkeelError as error:  # the other groups can still be planned
            saying.print_error(f"{options.name}: {error}")
            failed = True
    facts = {name: plans.describe(each) for name, each in planned.items()}
    shown = [plans.format_plan(name, each) for name, each in planned.items()]
    if planned or not failed:
        saying.print_answer(options.output, facts, "\n\n".join(shown))
    if failed:
        return FAILED
    would_move = any(each.plan.moved for each in planned.values())
    return SOMETHING_MOVES if would_move else NOTHING_MOVES


def _read(options: argparse.Namespace) -> tuple[Manifests, str]:
    """Read the objects. Return them, and the name of their source."""
    if options.file:
        path = Path("/dev/stdin" if options.file == "-" else options.file)
        return manifests.read(path), options.file
    cluster = connecting.connect(options)
    namespace = connecting.choose_namespace(options, cluster)
    where = f"namespace {namespace}" if namespace else "the cluster"
    return reading.read_all(cluster, namespace), where


def _choose_groups(found: Manifests, names: Sequence[str], where: str) -> list[ConsumerGroup]:
    """Return the chosen groups, without those whose queues are not planned."""
    known = {key.name for key in found.groups}
    if not known:
        raise EvenkeelError(f"there is no ConsumerGroup in {where}")
    if missing := [name for name in names if name not in known]:
        raise EvenkeelError(
            f"there is no ConsumerGroup {', '.join(missing)} in {where}: "
            f"{reading.list_known(sorted(known))}"
        )
    return [
        group
        for key, group in sorted(found.groups.items())
        if not names or key.name in names
        if not planning.explain_no_plan(group)
    ]
