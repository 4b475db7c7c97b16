"""`evenkeel explain`: why queues are where they are."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from evenkeel.cluster import paths
from evenkeel.objects import ConsumerGroup, Key
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading
from evenkeel_cli.cluster.client import Cluster, Document, ForbiddenError
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import explaining, sentences
from evenkeel_cli.facts.past import Past

TEXT = (
    "Says who owns which queues of a group, since when and by which rule, what the next plan would "
    "change, and what the conditions mean. Moves are known from the status, and from Events for "
    "as long as the cluster keeps those."
)
EXAMPLES = """\
  %(prog)s billing                            # all queues, together by story
  %(prog)s billing --queue orders@broker-a/3  # one queue, in full
  %(prog)s billing -o json                    # for programs
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Say how it is called."""
    told.explained(parser, TEXT, EXAMPLES)
    parser.add_argument("group", type=told.name, metavar="GROUP", help="name of a ConsumerGroup")
    parser.add_argument("--queue", metavar="TOPIC@BROKER/ID", help="only this one, in full")
    told.of_output(parser)
    told.of_cluster(parser)
    parser.set_defaults(command=_explain)


def _explain(options: argparse.Namespace) -> int:
    cluster = connecting.connected(options)
    group = reading.group(cluster, Key(cluster.namespace, options.group))
    topics = {each.head.key: each for each in reading.topics(cluster, cluster.namespace)}
    past = Past(group.status, _events(cluster, group))
    found = explaining.explained(group, topics, past, datetime.now(UTC))
    if options.queue:
        found = explaining.only(found, options.queue)
        text = sentences.of_queue(found, found.rows[0])
    else:
        text = sentences.of_group(found)
    saying.answer(options.output, sentences.facts(found), text)
    return DONE


def _events(cluster: Cluster, group: ConsumerGroup) -> Sequence[Document]:
    """Find what the operator has told of the group; nothing where that may not be read."""
    about = f"involvedObject.kind={group.KIND},involvedObject.name={group.head.key.name}"
    try:
        found = list(cluster.listed(paths.EVENTS, group.head.key.namespace, fieldSelector=about))
    except ForbiddenError:
        return ()
    return [each for each in found if each["involvedObject"].get("uid") == group.head.uid]
