"""
`evenkeel rebalance`, `pause`, `resume`, `restart` and `skip`: requests to one group.

Each command sets one annotation, which the operator follows. `requests` defines the annotations.
"""

import argparse
from datetime import UTC, datetime

from evenkeel.cluster.api import paths
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading, waiting
from evenkeel_cli.cluster.client import ClusterClient
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import requests
from evenkeel_cli.facts.requests import AnnotationRequest

TEXTS = {
    "rebalance": "Plans a group once, immediately and without the limits maxMoves and minGain, "
    "even while the group is paused.",
    "pause": "Pauses the rebalancing of a group: queues keep their owners, and only queues without "
    "an owner get a new one. The job continues to read.",
    "resume": "Ends the pause of a group. The operator plans it immediately.",
    "restart": "Restarts the job of a group after its current batch. A job that has failed "
    "permanently starts again.",
    "skip": "Lets a job that has stopped because messages were lost skip these messages, once. "
    "status.lastSkip records the skipped messages.",
}
EXAMPLES = """\
  %(prog)s billing
  %(prog)s billing -n team-a --wait --timeout 5m  # wait until it is done
"""


def fill(parser: argparse.ArgumentParser, name: str) -> None:
    """Define the arguments of one of these commands."""
    told.describe(parser, TEXTS[name], EXAMPLES)
    parser.add_argument(
        "group", type=told.parse_name, metavar="GROUP", help="name of a ConsumerGroup"
    )
    told.add_wait_options(parser)
    told.add_output_option(parser)
    told.add_cluster_options(parser)
    parser.set_defaults(command=_ask, request=requests.KNOWN[name])


def _ask(options: argparse.Namespace) -> int:
    cluster = connecting.connect(options)
    group = reading.read_group(cluster, Key(cluster.namespace, options.group))
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    request: AnnotationRequest = options.request(group, moment)
    if request.is_new:
        change = {"annotations": {request.annotation: request.value}}
        cluster.merge(paths.GROUPS, group.head.key, {"metadata": change})
    seen = _wait_until_done(cluster, group, request, options.timeout) if options.wait else None
    facts = {
        "namespace": group.head.key.namespace,
        "group": group.head.key.name,
        "annotation": request.annotation,
        "value": request.value,
        "changed": request.is_new,
        "seen": seen,
    }
    last = seen or "to watch the group: " + told.write_command(options, f"top {options.group}")
    saying.print_answer(options.output, facts, f"{request.did}: {request.follows}\n{last}")
    return DONE


def _wait_until_done(
    cluster: ClusterClient, group: ConsumerGroup, request: AnnotationRequest, seconds: float
) -> str:
    found = waiting.poll(lambda: request.seen(reading.read_group(cluster, group.head.key)), seconds)
    if found is None:
        why = requests.explain_delay(reading.read_group(cluster, group.head.key))
        raise EvenkeelError(f"{request.did}, but it has had no effect after {seconds:g} s: {why}")
    return found
