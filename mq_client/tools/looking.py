"""Commands that only read: routes, topics, members, lag, and messages."""

import argparse

from mq_client import filters, tables
from mq_client.blocking import Client
from mq_client.filters import Filter
from mq_client.messages import StoredMessage
from mq_client.pulling import Position
from mq_client.tables import Row
from mq_client.tools import printing
from mq_client.values import Lag


def show_route(client: Client, options: argparse.Namespace) -> None:
    """Show where a topic's queues are."""
    columns = ["broker", "cluster", "read_queues", "write_queues", "perm", "addresses"]
    rows = [
        {
            "broker": broker.broker,
            "cluster": broker.cluster,
            "read_queues": broker.read_queues,
            "write_queues": broker.write_queues,
            "perm": broker.perm,
            "addresses": ", ".join(f"{n}={a}" for n, a in broker.addresses.items()),
        }
        for broker in client.find_route(options.topic).brokers
    ]
    printing.print_rows(options, columns, rows)


def show_topics(client: Client, options: argparse.Namespace) -> None:
    """List the topics."""
    names = client.list_topics() if options.all else client.list_user_topics()
    printing.print_rows(options, ["topic"], [{"topic": name} for name in names])


def show_members(client: Client, options: argparse.Namespace) -> None:
    """List the members of a group."""
    found = client.list_members(options.group, options.topic)
    rows = [
        {
            "client_id": member.client_id,
            "address": member.address,
            "language": member.language,
            "subscription": found.subscriptions.get(options.topic),
        }
        for member in found.members
    ]
    printing.print_rows(options, ["client_id", "address", "language", "subscription"], rows)


def show_groups(client: Client, options: argparse.Namespace) -> None:
    """List the groups of all brokers, with their settings."""
    columns = ["group", "broker", "enabled", "ordered", "retries"]
    rows: list[Row] = [
        {
            "group": group,
            "broker": broker,
            "enabled": config.is_enabled,
            "ordered": config.is_ordered,
            "retries": config.most_retries,
        }
        for broker, found in client.list_groups().items()
        for group, config in found.items()
    ]
    rows.sort(key=lambda row: (row["group"], row["broker"]))
    printing.print_rows(options, columns, rows)


def show_lag(client: Client, options: argparse.Namespace) -> None:
    """Show the lag of a group, queue by queue."""
    found = client.measure_lag(options.group, options.topic)
    rows = [_make_lag_row(client, options.group, lag) for lag in found]
    printing.print_rows(options, ["broker", "queue", "committed", "end", "lag"], rows)
    if not printing.is_json(options):
        print(_summarize(options.group, rows))


def _make_lag_row(client: Client, group: str, lag: Lag) -> Row:
    """
    Make a row.

    A broker answers 0 even if the group has committed nothing. So if the answer is 0, this function
    asks for the committed offset.
    """
    committed: int | None = lag.consumer_offset
    if committed == 0:
        committed = client.find_committed(group, lag.queue)
    return {
        "broker": lag.queue.broker,
        "queue": lag.queue.id,
        "committed": committed,
        "end": lag.broker_offset,
        "lag": None if committed is None else lag.messages,
    }


def _summarize(group: str, rows: list[Row]) -> str:
    known = [row["lag"] for row in rows if row["lag"] is not None]
    unknown = len(rows) - len(known)
    if rows and not known:
        return (
            f"group {group!r} has committed nothing on these {_format_count(unknown, 'queue')}: "
            "check its name"
        )
    text = f"{_format_count(sum(known), 'message')} behind on {_format_count(len(known), 'queue')}"
    return text + (
        f"; nothing is committed on {_format_count(unknown, 'queue')}" if unknown else ""
    )


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def tail(client: Client, options: argparse.Namespace) -> None:
    """Print messages as they arrive, until the end or Ctrl-C."""
    wanted = _read_filter(options)
    positions = [
        Position(
            queue,
            printing.find_offset(client, options.start, queue, offsets),
            None if options.follow else offsets.max,
            wanted,
        )
        for queue, offsets in printing.choose_queues(
            options, client.list_offsets(options.topic)
        ).items()
    ]
    for batch in client.read(options.group, positions):
        for message in batch.to_messages():
            print(_format_message(message, printing.is_json(options)), flush=True)


def _read_filter(options: argparse.Namespace) -> Filter:
    return (
        filters.match_tags(options.tags or "*")
        if options.sql is None
        else filters.match_sql(options.sql)
    )


def _format_message(message: StoredMessage, is_json: bool) -> str:
    body = message.body.decode(errors="backslashreplace")
    if is_json:
        return tables.to_json_line(
            {
                "broker": message.broker,
                "queue": message.queue_id,
                "offset": message.queue_offset,
                "msg_id": message.msg_id,
                "tags": message.tags,
                "properties": dict(message.properties),
                "body": body,
            }
        )
    place = f"{message.broker} {message.queue_id}:{message.queue_offset}"
    return tables.to_one_line(f"{place}  {message.tags or '-'}  {body}")
