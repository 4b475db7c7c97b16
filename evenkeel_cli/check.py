"""`evenkeel check`: tests a running operator. `helm test` runs this command."""

import argparse
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import ForbiddenError, NotFoundError
from evenkeel.cluster.api.paths import Resource
from evenkeel.errors import EvenkeelError
from evenkeel.objects import ConsumerGroup, Key
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading, waiting
from evenkeel_cli.cluster.client import ClusterClient, Document, NotInstalledError
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import checking, requests

WAIT_SECONDS = 60.0
TEXT = (
    "Creates a Topic and a ConsumerGroup with three consumers, waits until the operator has "
    "assigned the queues, checks the assignment, and deletes both. It needs no broker and no pods. "
    "The exit code is 0 if the assignment is right, otherwise 1."
)
EXAMPLES = """\
  %(prog)s                                  # in the namespace of the context or pod
  %(prog)s --namespace team-a --timeout 2m
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(parser, TEXT, EXAMPLES)
    told.add_timeout_option(parser, WAIT_SECONDS, "how long to wait for the operator")
    told.add_output_option(parser)
    told.add_cluster_options(parser)
    parser.set_defaults(command=_check)


def _check(options: argparse.Namespace) -> int:
    cluster = connecting.connect(options)
    key = Key(cluster.namespace, f"evenkeel-check-{secrets.token_hex(4)}")
    begun = time.monotonic()
    left: list[str] = []
    with ExitStack() as made:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        made.callback(signal.signal, signal.SIGTERM, before)  # SIGTERM must also clean up
        documents = {
            paths.TOPICS: checking.make_topic(key.name),
            paths.GROUPS: checking.make_group(key.name),
        }
        for resource, document in documents.items():
            made.enter_context(_hold_object(cluster, resource, key, document, left))
        group = _wait_until_ready(cluster, key, options.timeout)
        seconds = time.monotonic() - begun
    if left:
        raise EvenkeelError("the assignment was right, but the test objects could not be deleted")
    if complaint := checking.find_fault(group, key.name):
        raise EvenkeelError(f"the assignment of {group} is wrong: {complaint}")
    facts = {"namespace": key.namespace, "group": key.name, "seconds": round(seconds, 2)}
    lines = [
        f"{group} was ready after {seconds:.1f} s, epoch {group.status.epoch}:",
        *(f"  {checking.describe_share(each)}" for each in group.status.assignments),
        "the assignment is right; the operator works",
    ]
    saying.print_answer(options.output, facts, "\n".join(lines))
    return DONE


@contextmanager
def _hold_object(
    cluster: ClusterClient, resource: Resource, key: Key, document: Document, left: list[str]
) -> Iterator[None]:
    """Create an object when the block begins, and delete it when the block ends."""
    may_be_there = True  # it may exist even if the answer to the request is lost
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


def _delete(cluster: ClusterClient, resource: Resource, key: Key, left: list[str]) -> None:
    """Delete an object. A failure is only reported, because it must not hide an earlier error."""
    try:
        cluster.delete(resource, key)
    except NotFoundError:
        return
    except EvenkeelError as error:
        saying.print_error(f"{resource[2]} {key} is left behind; delete it yourself: {error}")
        left.append(resource[2])


def _wait_until_ready(cluster: ClusterClient, key: Key, seconds: float) -> ConsumerGroup:
    def look() -> ConsumerGroup | None:
        found = reading.read_group(cluster, key)
        return found if checking.is_ready(found) else None

    found = waiting.poll(look, seconds)
    if found is None:
        group = reading.read_group(cluster, key)
        raise EvenkeelError(
            f"{group} was not ready after {seconds:g} s: {requests.explain_delay(group)}"
        )
    return found
