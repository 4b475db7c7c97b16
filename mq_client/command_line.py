"""
Look into a RocketMQ cluster, and send to it, from the command line.

    python -m mq_client --name-server localhost:9876 topics
    python -m mq_client lag billing orders -o json
"""

import argparse
import io
import os
import re
import ssl
import sys
from collections.abc import Callable, Sequence

from mq_client import errors, filters, tables
from mq_client.acl import Credentials
from mq_client.blocking import Client
from mq_client.filters import Filter
from mq_client.messages import Message, StoredMessage
from mq_client.operations.sending import Chooser, RoundRobin, To
from mq_client.pulling import Position
from mq_client.tables import Row
from mq_client.values import Queue

EXAMPLES = """
examples:
  export NAMESRV_ADDR=localhost:9876     # or --name-server, each time
  python -m mq_client topics             # all topics, without RocketMQ's own
  python -m mq_client route orders       # brokers, addresses, queues, perm
  python -m mq_client members billing orders
  python -m mq_client lag billing orders
  python -m mq_client tail orders --from earliest --tags 'paid || refunded'
  python -m mq_client send orders 'hello' --tags paid --key o-17

exit codes: 0 done, 1 the cluster could not answer or said no, 2 wrong usage
"""


Command = Callable[[Client, argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments, argparse.Namespace(**UNLESS_GIVEN))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what it cannot show
    try:
        with _client(options) as client:
            options.run(client, options)
    except errors.MqError as error:
        print(f"mq_client: {error}", file=sys.stderr)
        return 2 if isinstance(error, errors.UsageError) else 1
    except BrokenPipeError:
        _forget_output()
    except OSError as error:
        print(f"mq_client: {error}", file=sys.stderr)
        _forget_output()
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _forget_output() -> None:
    """Keep Python from writing again at the exit, and complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
        for broker in client.route(options.topic).brokers
    ]
    _print(options, columns, rows)


def show_topics(client: Client, options: argparse.Namespace) -> None:
    """List the topics."""
    names = client.topics() if options.all else client.users_topics()
    _print(options, ["topic"], [{"topic": name} for name in names])


def show_members(client: Client, options: argparse.Namespace) -> None:
    """List who is connected for a group."""
    found = client.members(options.group, options.topic)
    rows = [
        {
            "client_id": member.client_id,
            "address": member.address,
            "language": member.language,
            "subscription": found.subscriptions.get(options.topic),
        }
        for member in found.members
    ]
    _print(options, ["client_id", "address", "language", "subscription"], rows)


def show_lag(client: Client, options: argparse.Namespace) -> None:
    """Show how far a group is behind, queue by queue."""
    found = client.lag(options.group, options.topic)
    rows = [
        {
            "broker": lag.queue.broker,
            "queue": lag.queue.id,
            "committed": lag.consumer_offset,
            "end": lag.broker_offset,
            "lag": lag.messages,
        }
        for lag in found
    ]
    _print(options, ["broker", "queue", "committed", "end", "lag"], rows)
    if options.output == "table":
        print(f"{sum(lag.messages for lag in found)} messages behind on {len(found)} queues")


def tail(client: Client, options: argparse.Namespace) -> None:
    """Print messages as they come, until the end that was asked for or Ctrl-C."""
    wanted = _wanted(options)
    offsets = client.topic_offsets(options.topic)
    positions = [
        Position(
            queue,
            _start(client, options.start, queue, place.min, place.max),
            None if options.follow else place.max,
            wanted,
        )
        for queue, place in offsets.items()
        if options.queue is None or options.queue == f"{queue.broker}:{queue.id}"
    ]
    if not positions:
        raise errors.UsageError(f"topic {options.topic!r} has no such queue as {options.queue!r}")
    for batch in client.read(options.group, positions):
        for message in batch.messages():
            print(_line(message, options.output), flush=True)


def _start(client: Client, start: str, queue: Queue, first: int, last: int) -> int:
    match start:
        case "earliest":
            return first
        case "latest":
            return last
        case _ if (milliseconds := _number(start)) is not None:
            return client.search_offset(queue, milliseconds)
        case _:
            raise errors.UsageError(f"--from {start!r}: earliest, latest, or milliseconds")


def _number(text: str) -> int | None:
    """Read a number that fits into 64 bits; None where there is none."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _wanted(options: argparse.Namespace) -> Filter:
    return filters.tags(options.tags or "*") if options.sql is None else filters.sql(options.sql)


def _line(message: StoredMessage, output: str) -> str:
    body = message.body.decode(errors="backslashreplace")
    if output == "json":
        return tables.as_json_line(
            {
                "broker": message.broker,
                "queue": message.queue_id,
                "offset": message.queue_offset,
                "msgId": message.msg_id,
                "tags": message.tags,
                "properties": dict(message.properties),
                "body": body,
            }
        )
    place = f"{message.broker} {message.queue_id}:{message.queue_offset}"
    return tables.one_line(f"{place}  {message.tags or '-'}  {body}")


def send(client: Client, options: argparse.Namespace) -> None:
    """Send one message, or each line of the standard input that is not blank."""
    chooser = _chooser(options)
    if options.body is not None:
        row = _send(client, options, chooser, os.fsencode(options.body))
        _print(options, list(row), [row])
        return
    sent = 0
    for line in sys.stdin.buffer:
        if line.strip():
            try:
                row = _send(client, options, chooser, line.rstrip(b"\n"))
            except errors.MqError as error:
                error.preface(f"{sent} lines were sent, the next one failed")
                raise
            sent += 1
            if options.output == "json":
                print(tables.as_json_line(row), flush=True)
            else:
                _print(options, list(row), [row])


def _chooser(options: argparse.Namespace) -> Chooser:
    if options.queue is None:
        return RoundRobin()
    broker, _, text = options.queue.rpartition(":")
    number = _number(text)
    if not broker or number is None:
        raise errors.UsageError(f"--queue {options.queue!r}: it reads broker:number")
    return To(Queue(options.topic, broker, number))


def _send(client: Client, options: argparse.Namespace, chooser: Chooser, body: bytes) -> Row:
    message = Message(
        options.topic,
        body,
        tags=options.tags,
        keys=tuple(options.key),
        delay_level=options.delay_level,
    )
    sent = client.send([message], chooser)
    return {
        "broker": sent.queue.broker,
        "queue": sent.queue.id,
        "offset": sent.offset,
        "message_id": sent.message_ids[0],
    }


def _print(options: argparse.Namespace, columns: Sequence[str], rows: Sequence[Row]) -> None:
    as_json = options.output == "json"
    print(tables.as_json(rows) if as_json else tables.as_table(columns, rows), flush=True)


def _client(options: argparse.Namespace) -> Client:
    name_server = options.name_server or os.environ.get("NAMESRV_ADDR")
    if not name_server:
        raise errors.UsageError("which cluster? Give --name-server host:9876, or set NAMESRV_ADDR")
    return Client(name_server, credentials=_credentials(options), tls=_tls(options))


def _credentials(options: argparse.Namespace) -> Credentials | None:
    """Take the secret from the environment, as a command line is open to everybody's eyes."""
    if not options.access_key:
        return None
    return Credentials(options.access_key, os.environ.get("ROCKETMQ_SECRET_KEY", ""))


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    if not options.tls and not options.tls_ca:
        return None
    try:
        return ssl.create_default_context(cafile=options.tls_ca)
    except OSError as error:
        raise errors.UsageError(f"--tls-ca {options.tls_ca}: {error}") from error


def _parser() -> argparse.ArgumentParser:
    anywhere = _options_for_all_commands()
    parser = argparse.ArgumentParser(
        parents=[anywhere],
        prog="python -m mq_client",
        description="Look into a RocketMQ cluster, and send to it.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(run: Command, name: str, *places: str) -> argparse.ArgumentParser:
        about = run.__doc__
        added = commands.add_parser(name, help=about, description=about, parents=[anywhere])
        for place in places:
            added.add_argument(place)
        added.set_defaults(run=run)
        return added

    command(show_route, "route", "topic")
    topics = command(show_topics, "topics")
    topics.add_argument("--all", action="store_true", help="also those of RocketMQ itself")
    command(show_members, "members", "group", "topic")
    command(show_lag, "lag", "group", "topic")
    tailing = command(tail, "tail", "topic")
    tailing.add_argument("--from", dest="start", default="latest", help="earliest, latest, or ms")
    tailing.add_argument("--no-follow", dest="follow", action="store_false", help="stop at the end")
    tailing.add_argument("--queue", metavar="BROKER:ID", help="only this one")
    wanted = tailing.add_mutually_exclusive_group()
    wanted.add_argument("--tags", help="only these, as in 'paid || refunded'")
    wanted.add_argument("--sql", help="an SQL92 condition; brokers may have it switched off")
    tailing.add_argument("--group", default="mq_client-tail", help="read as; nothing is committed")
    sending = command(send, "send", "topic")
    sending.add_argument("body", nargs="?", help="else the standard input, line by line")
    sending.add_argument("--tags")
    sending.add_argument("--key", action="append", default=[], help="may be given again")
    sending.add_argument("--delay-level", type=int, help="1 to 18: 1 s to 2 h")
    sending.add_argument("--queue", metavar="BROKER:ID", help="instead of round robin")
    return parser


UNLESS_GIVEN = {
    "name_server": None, "access_key": None, "tls": False, "tls_ca": None, "output": "table"
}  # fmt: skip


def _options_for_all_commands() -> argparse.ArgumentParser:
    """
    Make those that may stand before the command or behind it.

    They have no default of their own, or the command's would overwrite what was given before it.
    """
    found = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    found.add_argument("--name-server", metavar="HOST:PORT", help="else NAMESRV_ADDR")
    found.add_argument("--access-key", metavar="KEY", help="the secret is ROCKETMQ_SECRET_KEY")
    found.add_argument("--tls", action="store_true", help="speak TLS")
    found.add_argument("--tls-ca", metavar="FILE", help="speak TLS; trust these authorities")
    found.add_argument("-o", "--output", choices=["table", "json"], help="table unless given")
    return found
