"""`evenkeel check`: the program of `helm test`, which tries an operator out."""

import argparse
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from evenkeel.cluster import paths
from evenkeel.cluster.paths import Resource
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading, waiting
from evenkeel_cli.cluster.client import (
    Cluster,
    Document,
    ForbiddenError,
    MissingError,
    NotInstalledError,
)
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import checking, requests

WAIT_SECONDS = 60.0
TEXT = (
    "Makes a topic and a group of a few names, waits until the operator has shared the queues out, "
    "looks whether the shares are right, and deletes both again. It needs no broker and no pods. "
    "The exit code is 0 if all is well, else 1."
)
EXAMPLES = """\
  %(prog)s                                  # in the namespace of context or pod
  %(prog)s --namespace team-a --timeout 2m
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Say how it is called."""
    told.explained(parser, TEXT, EXAMPLES)
    told.of_timeout(parser, WAIT_SECONDS, "for the operator")
    told.of_output(parser)
    told.of_cluster(parser)
    parser.set_defaults(command=_check)


def _check(options: argparse.Namespace) -> int:
    cluster = connecting.connected(options)
    key = Key(cluster.namespace, f"evenkeel-check-{secrets.token_hex(4)}")
    begun = time.monotonic()
    left: list[str] = []
    with ExitStack() as made:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        made.callback(signal.signal, signal.SIGTERM, before)  # a pod that is told to end cleans up
        for resource, document in (
            (paths.TOPICS, checking.topic(key.name)), (paths.GROUPS, checking.group(key.name))
        ):  # fmt: skip
            made.enter_context(_there(cluster, resource, key, document, left))
        group = _until_ready(cluster, key, options.timeout)
        seconds = time.monotonic() - begun
    if left:
        raise EvenkeelError("all was well, but for what could not be deleted again")
    if complaint := checking.complaint(group, key.name):
        raise EvenkeelError(f"{group} was shared out in a way that is not right: {complaint}")
    facts = {"namespace": key.namespace, "group": key.name, "seconds": round(seconds, 2)}
    lines = [
        f"{group} was ready after {seconds:.1f} s, epoch {group.status.epoch}:",
        *(f"  {checking.seen(each)}" for each in group.status.assignments),
        "as it must be; the operator works",
    ]
    saying.answer(options.output, facts, "\n".join(lines))
    return DONE


@contextmanager
def _there(
    cluster: Cluster, resource: Resource, key: Key, document: Document, left: list[str]
) -> Iterator[None]:
    """Have an object for as long as this lasts."""
    may_be_there = True  # also if the answer is lost
    try:
        try:
            cluster.create(resource, key.namespace, document)
        except (ForbiddenError, NotInstalledError):
            may_be_there = False
            raise
        yield
    finally:
        if may_be_there:
            _delete(cluster, resource, key, left)


def _delete(cluster: Cluster, resource: Resource, key: Key, left: list[str]) -> None:
    """Delete what was made; trouble with that must not hide what went wrong before."""
    try:
        cluster.delete(resource, key)
    except MissingError:
        return
    except EvenkeelError as error:
        saying.complaint(f"{resource[2]} {key} is left behind, delete it: {error}")
        left.append(resource[2])


def _until_ready(cluster: Cluster, key: Key, seconds: float) -> ConsumerGroup:
    def look() -> ConsumerGroup | None:
        found = reading.group(cluster, key)
        return found if checking.is_ready(found) else None

    found = waiting.until(look, seconds)
    if found is None:
        group = reading.group(cluster, key)
        raise EvenkeelError(f"{group} was not ready after {seconds:g} s: {requests.why_not(group)}")
    return found
