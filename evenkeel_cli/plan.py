"""
`evenkeel plan`: what would move, before it does.

Exit codes: 0 nothing that has an owner would move, 2 something would, 1 it cannot tell.
"""

import argparse
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from contract.kinds.groups import MessageModel
from contract.kinds.jobs import MOST_EXECUTORS
from evenkeel import manifests
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
    "Plans groups anew, from what their status says now, and changes nothing. The exit code is 0 "
    "if nothing that has an owner would move, 2 if something would, and 1 if it cannot tell."
)
EXAMPLES = """\
  %(prog)s                           # the whole namespace
  %(prog)s billing --executors 5     # if its job had five executors
  %(prog)s -A -o json                # all namespaces, for programs
  %(prog)s -f billing.yaml           # from a file alone, without a cluster
  kubectl get mqt,mqcg -o yaml | %(prog)s -f -
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Say how it is called."""
    told.explained(parser, TEXT, EXAMPLES)
    parser.add_argument(
        "groups", type=told.name, metavar="GROUP", nargs="*",
        help="names of ConsumerGroups; default: all",
    )  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-f", dest="file", metavar="FILE", help="manifests; - is stdin")
    where.add_argument("--cluster", action="store_true", help="what the cluster has: the default")
    parser.add_argument("--executors", type=_executors, metavar="N", help="as if jobs had so many")
    told.of_output(parser)
    told.of_cluster(parser, everywhere=True)
    parser.set_defaults(command=_plan)


def _executors(text: str) -> int:
    if not re.fullmatch("[0-9]{1,4}", text) or int(text) > MOST_EXECUTORS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of executors: 0 to {MOST_EXECUTORS}"
        )
    return int(text)


def _plan(options: argparse.Namespace) -> int:
    found, where = _read(options)
    now = datetime.now(UTC)
    planned: dict[str, Foresight] = {}
    failed = False
    for group in _chosen(found, options.groups, where):
        try:
            planned[str(group.head.key)] = foresight.foresee(
                group, found.topics, now, options.executors
            )
        except EvenkeelError as error:  # what becomes of the others can be told
            saying.complaint(f"{options.name}: {error}")
            failed = True
    facts = {name: plans.facts(each) for name, each in planned.items()}
    shown = [plans.shown(name, each) for name, each in planned.items()]
    if planned or not failed:
        saying.answer(options.output, facts, "\n\n".join(shown))
    if failed:
        return FAILED
    would_move = any(each.plan.moved for each in planned.values())
    return SOMETHING_MOVES if would_move else NOTHING_MOVES


def _read(options: argparse.Namespace) -> tuple[Manifests, str]:
    """Read the objects, and say where they are from."""
    if options.file:
        path = Path("/dev/stdin" if options.file == "-" else options.file)
        return manifests.read(path), options.file
    cluster = connecting.connected(options)
    namespace = connecting.where(options, cluster)
    where = f"namespace {namespace}" if namespace else "the cluster"
    return reading.everything(cluster, namespace), where


def _chosen(found: Manifests, names: Sequence[str], where: str) -> list[ConsumerGroup]:
    """Find the groups that are meant, but for those in which nothing ever moves."""
    known = {key.name for key in found.groups}
    if not known:
        raise EvenkeelError(f"there is no ConsumerGroup in {where}")
    if missing := [name for name in names if name not in known]:
        raise EvenkeelError(
            f"there is no ConsumerGroup {', '.join(missing)} in {where}: "
            f"{reading.there_are(sorted(known))}"
        )
    return [
        group
        for key, group in sorted(found.groups.items())
        if not names or key.name in names
        if group.spec.message_model is MessageModel.CLUSTERING
    ]
