"""
`evenkeel rebalance`, `pause`, `resume`, `restart` and `skip`: what a group is asked for by hand.

Each sets one annotation, which the operator follows; `requests` has what is particular to each.
"""

import argparse
from datetime import UTC, datetime

from evenkeel.cluster import paths
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading, waiting
from evenkeel_cli.cluster.client import Cluster
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import requests
from evenkeel_cli.facts.requests import Request

TEXTS = {
    "rebalance": "Has a group planned once, at once, without the limits maxMoves and minGain, also "
    "while it is paused.",
    "pause": "Lets the queues of a group stay where they are: only what nobody owns gets an owner. "
    "Its job goes on reading.",
    "resume": "Ends the pause of a group. It is planned at once.",
    "restart": "Lets the job of a group end after its batch and start anew. A job that has failed "
    "for good is started again.",
    "skip": "Lets a job that has stopped because messages are gone for good pass over what is "
    "lost, once. status.lastSkip says afterwards what that was.",
}
EXAMPLES = """\
  %(prog)s billing
  %(prog)s billing -n team-a --wait --timeout 5m  # until it is done
"""


def fill(parser: argparse.ArgumentParser, name: str) -> None:
    """Say how they are called."""
    told.explained(parser, TEXTS[name], EXAMPLES)
    parser.add_argument("group", type=told.name, metavar="GROUP", help="name of a ConsumerGroup")
    told.of_waiting(parser)
    told.of_output(parser)
    told.of_cluster(parser)
    parser.set_defaults(command=_ask, request=requests.KNOWN[name])


def _ask(options: argparse.Namespace) -> int:
    cluster = connecting.connected(options)
    group = reading.group(cluster, Key(cluster.namespace, options.group))
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    request: Request = options.request(group, moment)
    if request.is_new:
        change = {"annotations": {request.annotation: request.value}}
        cluster.merge(paths.GROUPS, group.head.key, {"metadata": change})
    seen = _waited(cluster, group, request, options.timeout) if options.wait else None
    facts = {
        "namespace": group.head.key.namespace,
        "group": group.head.key.name,
        "annotation": request.annotation,
        "value": request.value,
        "changed": request.is_new,
        "seen": seen,
    }
    last = seen or "watch it: " + told.again(options, f"top {options.group}")
    saying.answer(options.output, facts, f"{request.did}: {request.follows}\n{last}")
    return DONE


def _waited(cluster: Cluster, group: ConsumerGroup, request: Request, seconds: float) -> str:
    found = waiting.until(lambda: request.seen(reading.group(cluster, group.head.key)), seconds)
    if found is None:
        why = requests.why_not(reading.group(cluster, group.head.key))
        raise EvenkeelError(
            f"{request.did}, but that is not seen to be done after {seconds:g} s: {why}"
        )
    return found
