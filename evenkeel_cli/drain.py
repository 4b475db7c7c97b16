"""`evenkeel drain`: takes the queues away from pods, so that they can be deleted."""

import argparse
from collections.abc import Iterable

from contract.names import DRAIN
from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import ConflictError, ForbiddenError, NotFoundError
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading, waiting
from evenkeel_cli.cluster.client import ClusterClient
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import draining

TRIES = 10
TEXT = (
    "Takes all queues away from pods. A pod that a podSelector selects gets no more queues. An "
    "executor of a job ends after its batch, and a new executor takes over its slot and queues."
)
EXAMPLES = """\
  %(prog)s billing-7f9c-x2x8d          # moves its queues to other pods
  %(prog)s billing-exec-2 --wait       # also waits until it has no queues
  %(prog)s billing-7f9c-x2x8d --undo   # allows it to get queues again
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(parser, TEXT, EXAMPLES)
    parser.add_argument(
        "pods",
        type=told.parse_name,
        metavar="POD",
        nargs="+",
        help="name of a pod that reads queues",
    )
    parser.add_argument("--undo", action="store_true", help="allow them to get queues again")
    told.add_wait_options(parser)
    told.add_output_option(parser)
    told.add_cluster_options(parser)
    parser.set_defaults(command=_drain)


def _drain(options: argparse.Namespace) -> int:
    cluster, undo = connecting.connect(options), options.undo
    groups = reading.read_groups(cluster, cluster.namespace)
    found = draining.match_pods(groups, options.pods, undo=undo)
    facts, lines = [], []
    for group, pods in found:
        value, is_new = _write_annotation(cluster, group, pods, undo=undo)
        facts.append(
            {
                "namespace": group.head.key.namespace,
                "group": group.head.key.name,
                "pods": pods,
                "draining": value.split(",") if value else [],
                "changed": is_new,
            }
        )
        verb = "is no longer drained" if undo else "is drained"
        lines += [f"{pod} of {group} {verb}: {draining.describe_effect(group, pod, undo=undo)}"
                  for pod in pods]  # fmt: skip
        if not options.wait:
            lines.append(
                "to watch the group: " + told.write_command(options, f"top {group.head.key.name}")
            )
    if options.wait:
        for group, pods in found:
            _wait(cluster, group, pods, options)
        lines.append("the operator reports that the drain is done")
    saying.print_answer(options.output, facts, "\n".join(lines))
    return DONE


def _write_annotation(
    cluster: ClusterClient, group: ConsumerGroup, pods: Iterable[str], *, undo: bool
) -> tuple[str | None, bool]:
    """Change the annotation; retry on conflicts. Return its value, and whether it has changed."""
    for left in reversed(range(TRIES)):
        value = draining.make_annotation(group, pods, _find_deleted_pods(cluster, group), undo=undo)
        if value == group.head.annotations.get(DRAIN):
            return value, False
        change = {"resourceVersion": group.head.version, "annotations": {DRAIN: value}}
        try:
            cluster.merge(paths.GROUPS, group.head.key, {"metadata": change})
        except ConflictError:
            if not left:
                raise
            group = reading.read_group(cluster, group.head.key)
        else:
            return value, True
    raise AssertionError("the last try returns or raises")


def _find_deleted_pods(cluster: ClusterClient, group: ConsumerGroup) -> set[str]:
    """Find the pods in the annotation that no longer exist."""
    gone = set()
    for name in group.to_drain - draining.find_readers(group).keys():
        try:
            cluster.get(paths.PODS, group.find_key(name))
        except NotFoundError:
            gone.add(name)
        except ForbiddenError:  # old names in the annotation do no harm
            break
    return gone


def _wait(
    cluster: ClusterClient, group: ConsumerGroup, pods: list[str], options: argparse.Namespace
) -> None:
    def look() -> bool | None:
        now = reading.read_group(cluster, group.head.key)
        return draining.is_done(now, pods, undo=options.undo) or None

    if waiting.poll(look, options.timeout) is None:
        why = draining.explain_delay(reading.read_group(cluster, group.head.key))
        raise EvenkeelError(
            f"{', '.join(pods)} of {group} must be drained, but this is not done after "
            f"{options.timeout:g} s: {why}"
        )
