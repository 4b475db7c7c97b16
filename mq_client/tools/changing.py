"""Commands that change a cluster: create and delete topics, reset offsets of groups."""

import argparse

from mq_client import errors
from mq_client.blocking import Client
from mq_client.popping import PoppedMessage
from mq_client.tables import Row
from mq_client.tools import looking, printing
from mq_client.values import Route, TopicConfig


def create_topic(client: Client, options: argparse.Namespace) -> None:
    """Create a topic and show its queues. An existing topic is never changed."""
    known = _find_route(client, options.topic)
    brokers = options.broker or None
    if known is None:
        client.put_topics([TopicConfig(options.topic, options.queues, options.queues)], brokers)
    elif not _is_as_asked(client, known, options):
        there = ", ".join(f"{each.write_queues} queues on {each.broker}" for each in known.brokers)
        raise errors.MqError(
            f"topic {options.topic!r} exists already, with {there}: nothing was changed"
        )
    looking.show_route(client, options)


def _find_route(client: Client, topic: str) -> Route | None:
    try:
        return client.find_route(topic, max_age=0)
    except errors.TopicUnknownError:
        return None


def _is_as_asked(client: Client, known: Route, options: argparse.Namespace) -> bool:
    brokers = options.broker or client.list_brokers().brokers
    return {broker.broker for broker in known.brokers} == set(brokers) and all(
        broker.read_queues == broker.write_queues == options.queues for broker in known.brokers
    )


def delete_topic(client: Client, options: argparse.Namespace) -> None:
    """Delete a topic and its messages, on all brokers."""
    offsets = client.list_offsets(options.topic)
    row = {
        "topic": options.topic,
        "queues": len(offsets),
        "messages": sum(each.max - each.min for each in offsets.values()),
    }
    client.delete_topic(options.topic)
    if printing.is_json(options):
        printing.print_rows(options, list(row), [row])
    else:
        print(
            f"topic {options.topic!r} is deleted: {row['queues']} queues with {row['messages']} "
            "messages"
        )


def pop(client: Client, options: argparse.Namespace) -> None:
    """Take messages from each broker, and show them. Without --ack they come again later."""
    found: list[PoppedMessage] = []
    try:
        for broker in client.find_route(options.topic, max_age=0).brokers:
            found += client.pop(
                options.group, options.topic, broker.broker,
                most=options.most, invisible_ms=1000 * options.invisible, poll_ms=0,
            )  # fmt: skip
    finally:
        rows = [_make_popped_row(each) for each in found]
        printing.print_rows(options, ["broker", "attempt", "body", "handle"], rows)
    if options.ack:
        client.acknowledge(options.group, options.topic, [each.handle for each in found])


def _make_popped_row(popped: PoppedMessage) -> Row:
    return {
        "broker": popped.message.broker,
        "attempt": popped.attempt,
        "body": popped.message.body.decode("utf-8", "backslashreplace"),
        "handle": str(popped.handle),
    }


def reset_offsets(client: Client, options: argparse.Namespace) -> None:
    """Set where an idle group continues: at the beginning, the end, or a time."""
    places = printing.choose_queues(options, client.list_offsets(options.topic))
    wanted = {
        queue: printing.find_offset(client, options.place, queue, offsets)
        for queue, offsets in places.items()
    }
    if readers := client.list_member_ids(options.group, options.topic):
        raise errors.MqError(
            f"group {options.group!r} has the members {', '.join(readers)}: stop them first, "
            "because they would commit their own offsets again"
        )
    before = {queue: client.find_committed(options.group, queue) for queue in wanted}
    client.commit(options.group, wanted)
    rows = [
        {
            "broker": queue.broker,
            "queue": queue.id,
            "was": before[queue],
            "now": offset,
            "end": places[queue].max,
        }
        for queue, offset in wanted.items()
    ]
    printing.print_rows(options, ["broker", "queue", "was", "now", "end"], rows)
