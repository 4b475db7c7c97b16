"""
The command line: `python -m evenkeel plan|run -f FILE`, `python -m evenkeel operator`.

Exit codes of `plan`: 0 nothing that has an owner would move, 2 something would, 1 it cannot tell.
"""

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from evenkeel import __version__, manifests, planning
from evenkeel.api.groups import MessageModel
from evenkeel.errors import EvenkeelError
from lb_core.assignment import format_ids
from lb_core.moves import Move
from lb_core.plan import Plan
from mq_client import tables

NOTHING_MOVES, FAILED, SOMETHING_MOVES = 0, 1, 2
COLUMNS = ("topic", "broker", "queues", "from", "to", "why")
LEASE_TERMS = (
    ("duration", 15.0, "others take over when it was not renewed for so long"),
    ("deadline", 10.0, "who could not renew it for so long leads no more"),
    ("period", 2.0, "it is renewed so often"),
)
EXAMPLES = """\
examples:
  evenkeel plan -f billing.yaml                    # what would move, from whom to whom, and why
  evenkeel plan -f billing.yaml --executors 5      # if the job had five executors
  evenkeel plan --cluster -n team-a                # what would move in that namespace
  kubectl get mqt,mqcg -o yaml | evenkeel plan -f -
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
        return code
    except EvenkeelError as error:
        print(f"evenkeel: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # whoever reads has seen enough, and Python must not write again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evenkeel", description="Who reads which queue, and why.")
    parser.add_argument("--version", action="version", version=f"evenkeel {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
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
    operator = commands.add_parser(
        "operator",
        help="keep the groups of a cluster",
        description="Runs the operator until SIGTERM. Several may run: one leads, by a Lease.",
    )
    operator.add_argument(
        "--namespace", action="append", default=[], metavar="NAME",
        help="look only here; may be given several times. Default: everywhere",
    )  # fmt: skip
    operator.add_argument("--port", type=int, default=8080, help="for /metrics and /healthz; 8080")
    operator.add_argument("--image", default="", help="of jobs that name none")
    operator.add_argument(
        "--lease-namespace", metavar="NAME", help="where the Lease is; where the operator is"
    )
    for name, seconds, what in LEASE_TERMS:
        operator.add_argument(
            f"--lease-{name}", type=float, default=seconds, metavar="SECONDS",
            help=f"{what}; {seconds:g}",
        )  # fmt: skip
    operator.set_defaults(command=_operator)
    return parser


def _operator(options: argparse.Namespace) -> int:
    import kopf

    from evenkeel.cluster import app, lease  # `plan` need not wait for it

    terms = lease.Terms(options.lease_duration, options.lease_deadline, options.lease_period)
    found = app.Options(
        options.namespace, options.port, options.image, options.lease_namespace, terms
    )
    kopf.configure(log_format=kopf.LogFormat.JSON)
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # else a line for each event
    asyncio.run(app.run(found))
    return 0


def _run(options: argparse.Namespace) -> int:
    from evenkeel.embedded import app  # `plan` need not wait for it

    asyncio.run(app.run(Path(options.file), Path(options.state)))
    return 0


def _plan(options: argparse.Namespace) -> int:
    if options.cluster:
        from evenkeel.cluster import reading  # without a cluster, nobody waits for it

        found = asyncio.run(reading.read(options.namespace))
    else:
        found = manifests.read(Path("/dev/stdin" if options.file == "-" else options.file))
    if not found.groups:
        where = f"namespace {options.namespace}" if options.namespace else options.file or "cluster"
        raise EvenkeelError(f"there is no ConsumerGroup in {where}")
    plans = {
        str(key): planning.planned(group, found.topics, options.executors)
        for key, group in sorted(found.groups.items())
        if group.spec.message_model is MessageModel.CLUSTERING  # else nothing ever moves
    }
    if options.output == "json":
        print(json.dumps({name: _facts(each) for name, each in plans.items()}, indent=2))
    else:
        print("\n\n".join(_shown(name, each) for name, each in plans.items()))
    return SOMETHING_MOVES if any(each.moved for each in plans.values()) else NOTHING_MOVES


def _facts(plan: Plan) -> dict[str, object]:
    return {
        "moved": plan.moved,
        "imbalance": f"{plan.imbalance:.2f}",
        "bestImbalance": f"{plan.best_imbalance:.2f}",
        "moves": list(_rows(plan.moves)),
        "deferred": list(_rows(plan.deferred)),
        "assignments": [
            {
                "consumer": consumer,
                "queues": [
                    {"topic": topic, "broker": broker, "ids": ids}
                    for (topic, broker), ids in plan.assignment.ids(consumer).items()
                ],
            }
            for consumer in plan.assignment
        ],
    }


def _shown(name: str, plan: Plan) -> str:
    rows = list(_rows(plan.moves))
    lines = [
        f"{name}: {plan.moved} queues move",
        *([tables.as_table(COLUMNS, rows)] if rows else []),
    ]
    if plan.deferred:
        later = sum(move.size for move in plan.deferred)
        lines.append(f"{later} more move later, for maxMoves")
    if plan.unowned:
        count = sum(map(len, plan.unowned.queues))
        lines.append(f"{count} queues have no owner: {plan.unowned.reason}")
    lines.append(f"imbalance {plan.imbalance:.2f}, at best {plan.best_imbalance:.2f}")
    return "\n".join(lines)


def _rows(moves: Sequence[Move]) -> Iterator[dict[str, object]]:
    for move in moves:
        for queues in move.queues:
            yield {
                "topic": queues.topic,
                "broker": queues.broker,
                "queues": format_ids([queues]),
                "from": move.source,
                "to": move.target,
                "why": move.reason,
            }


if __name__ == "__main__":
    sys.exit(main())
