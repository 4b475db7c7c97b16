"""`evenkeel explain`: explains why queues have their owners."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from evenkeel.cluster.api import paths
from evenkeel.cluster.api.api_errors import ForbiddenError
from evenkeel.objects import ConsumerGroup, Key
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting, reading
from evenkeel_cli.cluster.client import ClusterClient, Document
from evenkeel_cli.codes import DONE
from evenkeel_cli.facts import explaining, sentences
from evenkeel_cli.facts.past import Past

TEXT = (
    "Shows which consumer owns which queues of a group, since when and by which rule, what the "
    "next plan would change, and what the conditions mean. Past moves come from the status and "
    "from Events, as long as the cluster keeps these."
)
EXAMPLES = """\
  %(prog)s billing                            # all queues, grouped by history
  %(prog)s billing --queue orders@broker-a/3  # one queue, in detail
  %(prog)s billing -o json                    # for programs
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(parser, TEXT, EXAMPLES)
    parser.add_argument(
        "group", type=told.parse_name, metavar="GROUP", help="name of a ConsumerGroup"
    )
    parser.add_argument(
        "--queue", metavar="TOPIC@BROKER/ID", help="explain only this queue, in detail"
    )
    told.add_output_option(parser)
    told.add_cluster_options(parser)
    parser.set_defaults(command=_explain)


def _explain(options: argparse.Namespace) -> int:
    cluster = connecting.connect(options)
    group = reading.read_group(cluster, Key(cluster.namespace, options.group))
    topics = {each.head.key: each for each in reading.read_topics(cluster, cluster.namespace)}
    past = Past(group.status, _read_events(cluster, group))
    found = explaining.explain(group, topics, past, datetime.now(UTC))
    if options.queue:
        found = explaining.select_queue(found, options.queue)
        text = sentences.explain_queue(found, found.rows[0])
    else:
        text = sentences.explain_group(found)
    saying.print_answer(options.output, sentences.describe(found), text)
    return DONE


def _read_events(cluster: ClusterClient, group: ConsumerGroup) -> Sequence[Document]:
    """Read the Events about the group; an empty list if the user may not read Events."""
    about = f"involvedObject.kind={group.KIND},involvedObject.name={group.head.key.name}"
    try:
        found = list(
            cluster.list_objects(paths.EVENTS, group.head.key.namespace, fieldSelector=about)
        )
    except ForbiddenError:
        return ()
    return [each for each in found if each["involvedObject"].get("uid") == group.head.uid]
