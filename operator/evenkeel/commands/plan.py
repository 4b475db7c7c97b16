"""
`evenkeel plan`: what would move, before it does.

Exit codes: 0 nothing that has an owner would move, 2 something would, 1 it cannot tell.
"""

import argparse
from pathlib import Path

from evenkeel.commands.codes import NOTHING_MOVES, SOMETHING_MOVES
from evenkeel.commands.parsing import Commands
from evenkeel.errors import EvenkeelError

EXAMPLES = """\
examples:
  evenkeel plan -f billing.yaml                    # what would move, from whom to whom, and why
  evenkeel plan -f billing.yaml --executors 5      # if the job had five executors
  evenkeel plan --cluster -n team-a                # what would move in that namespace
  kubectl get mqt,mqcg -o yaml | evenkeel plan -f -
"""


def add(commands: Commands) -> None:
    """Say how it is called."""
    plan = commands.add_parser(
        "plan",
        help="show what would move, before it does",
        description="Plans the groups of a file anew, from what their status says now.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = plan.add_mutually_exclusive_group(required=True)
    where.add_argument("-f", dest="file", metavar="FILE", help="manifests; - is stdin")
    where.add_argument("--cluster", action="store_true", help="what the cluster has")
    plan.add_argument("-n", dest="namespace", metavar="NAMESPACE", help="of the cluster; else all")
    plan.add_argument("--executors", type=int, metavar="N", help="as if jobs had so many")
    plan.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    plan.set_defaults(command=_plan)


def _plan(options: argparse.Namespace) -> int:
    import asyncio
    import json

    from evenkeel import manifests, planning
    from evenkeel.api.groups import MessageModel
    from evenkeel.commands import plans

    if options.cluster:
        from evenkeel.cluster import reading  # without a cluster, nobody waits for it

        found = asyncio.run(reading.read(options.namespace))
    else:
        found = manifests.read(Path("/dev/stdin" if options.file == "-" else options.file))
    if not found.groups:
        where = f"namespace {options.namespace}" if options.namespace else options.file or "cluster"
        raise EvenkeelError(f"there is no ConsumerGroup in {where}")
    planned = {
        str(key): planning.planned(group, found.topics, options.executors)
        for key, group in sorted(found.groups.items())
        if group.spec.message_model is MessageModel.CLUSTERING  # else nothing ever moves
    }
    if options.output == "json":
        print(json.dumps({name: plans.facts(each) for name, each in planned.items()}, indent=2))  # noqa: T201
    else:
        print("\n\n".join(plans.shown(name, each) for name, each in planned.items()))  # noqa: T201
    return SOMETHING_MOVES if any(each.moved for each in planned.values()) else NOTHING_MOVES
