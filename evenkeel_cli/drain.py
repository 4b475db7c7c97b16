"""`evenkeel drain`: pods that read are emptied, so that they can go."""

import argparse
from collections.abc import Iterable

from contract.names import DRAIN
from evenkeel.cluster import paths
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading, waiting
from evenkeel_cli.cluster.client import Cluster, ConflictError, ForbiddenError, MissingError
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import draining

TRIES = 10
TEXT = (
    "Empties pods. One that a podSelector selects gets no queues any more. Of a job, the executor "
    "ends after its batch, and a new one takes its slot and its queues."
)
EXAMPLES = """\
  %(prog)s billing-7f9c-x2x8d          # its queues go to other pods
  %(prog)s billing-exec-2 --wait       # until it is empty
  %(prog)s billing-7f9c-x2x8d --undo   # it may have queues again
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Say how it is called."""
    told.explained(parser, TEXT, EXAMPLES)
    parser.add_argument(
        "pods", type=told.name, metavar="POD", nargs="+", help="name of a pod that reads queues"
    )
    parser.add_argument("--undo", action="store_true", help="let them have queues again")
    told.of_waiting(parser)
    told.of_output(parser)
    told.of_cluster(parser)
    parser.set_defaults(command=_drain)


def _drain(options: argparse.Namespace) -> int:
    cluster, undo = connecting.connected(options), options.undo
    groups = reading.groups(cluster, cluster.namespace)
    found = draining.sorted_out(groups, options.pods, undo=undo)
    facts, lines = [], []
    for group, pods in found:
        value, is_new = _written(cluster, group, pods, undo=undo)
        facts.append(
            {
                "namespace": group.head.key.namespace,
                "group": group.head.key.name,
                "pods": pods,
                "draining": value.split(",") if value else [],
                "changed": is_new,
            }
        )
        verb = "is not drained any more" if undo else "is to be emptied"
        lines += [f"{pod} of {group} {verb}: {draining.follows(group, pod, undo=undo)}"
                  for pod in pods]  # fmt: skip
        if not options.wait:
            lines.append("watch it: " + told.again(options, f"top {group.head.key.name}"))
    if options.wait:
        for group, pods in found:
            _wait(cluster, group, pods, options)
        lines.append("the operator shows that it is done")
    saying.answer(options.output, facts, "\n".join(lines))
    return DONE


def _written(
    cluster: Cluster, group: ConsumerGroup, pods: Iterable[str], *, undo: bool
) -> tuple[str | None, bool]:
    """Change the annotation, whoever else changes it meanwhile: its value, and if that is new."""
    for left in reversed(range(TRIES)):
        value = draining.annotation(group, pods, _gone(cluster, group), undo=undo)
        if value == group.head.annotations.get(DRAIN):
            return value, False
        change = {"resourceVersion": group.head.version, "annotations": {DRAIN: value}}
        try:
            cluster.merge(paths.GROUPS, group.head.key, {"metadata": change})
        except ConflictError:
            if not left:
                raise
            group = reading.group(cluster, group.head.key)
        else:
            return value, True
    raise AssertionError("the last try has returned or raised")


def _gone(cluster: Cluster, group: ConsumerGroup) -> set[str]:
    """Find the names of pods that were to be emptied, and are there no more."""
    gone = set()
    for name in group.to_drain - draining.readers(group).keys():
        try:
            cluster.get(paths.PODS, group.beside(name))
        except MissingError:
            gone.add(name)
        except ForbiddenError:  # names that stay do no harm
            break
    return gone


def _wait(
    cluster: Cluster, group: ConsumerGroup, pods: list[str], options: argparse.Namespace
) -> None:
    def look() -> bool | None:
        now = reading.group(cluster, group.head.key)
        return draining.is_done(now, pods, undo=options.undo) or None

    if waiting.until(look, options.timeout) is None:
        why = draining.why_not(reading.group(cluster, group.head.key))
        raise EvenkeelError(
            f"{group} was told about {', '.join(pods)}, but that is not seen to be done after "
            f"{options.timeout:g} s: {why}"
        )
