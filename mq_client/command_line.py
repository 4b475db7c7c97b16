"""
Inspect a RocketMQ cluster, send to it, and manage its topics, from the command line.

    python -m mq_client --name-server localhost:9876 topics
    python -m mq_client lag billing orders -o json
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from mq_client import access, errors
from mq_client.blocking import Client
from mq_client.popping import MOST_POPPED
from mq_client.tools import changing, looking, printing, sending

EXAMPLES = """
examples:
  export NAMESRV_ADDR=localhost:9876     # or --name-server, each time
  python -m mq_client create-topic orders --queues 8
  python -m mq_client topics             # all topics except RocketMQ's own
  python -m mq_client route orders       # brokers, addresses, queues, perm
  python -m mq_client members billing orders
  python -m mq_client lag billing orders
  python -m mq_client tail orders --from earliest --tags 'paid || refunded'
  python -m mq_client send orders 'hello' --tags paid --key o-17
  python -m mq_client groups             # settings of all groups, by broker
  python -m mq_client pop billing orders --ack
  python -m mq_client reset-offsets billing orders --to earliest
  python -m mq_client delete-topic orders

exit codes: 0 done, 1 the cluster could not answer or refused, 64 wrong usage, 130 Ctrl-C
"""
MISUSED = 64
"""Exit code for wrong usage. `evenkeel` uses the same one."""
MOST_QUEUES = 65_535
MOST_INVISIBLE = 24 * 60 * 60
MOST_DELAY = 18
"""A broker's highest delay level by default. The broker treats higher levels like this one."""
Command = Callable[[Client, argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    options = _make_parser().parse_args(arguments, argparse.Namespace(**UNLESS_GIVEN))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Escape characters that the terminal cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _make_client(options) as client:
            options.run(client, options)
    except errors.MqError as error:
        print(f"mq_client: {error}", file=sys.stderr)
        return MISUSED if isinstance(error, errors.UsageError) else 1
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
    """Prevent an error at exit, when Python flushes to the closed output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _make_client(options: argparse.Namespace) -> Client:
    name_server = options.name_server or os.environ.get("NAMESRV_ADDR")
    if not name_server:
        raise errors.UsageError("no cluster: give --name-server host:9876, or set NAMESRV_ADDR")
    return Client(
        name_server, credentials=access.read_credentials(options), tls=access.make_tls(options)
    )


class _CommandParser(argparse.ArgumentParser):
    """A parser that exits with the same code as `evenkeel` on wrong usage."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        self.exit(MISUSED, f"mq_client: {message}; see {self.prog} --help\n")


def _make_parser() -> argparse.ArgumentParser:
    anywhere = _make_common_options()
    parser = _CommandParser(
        parents=[anywhere],
        prog="python -m mq_client",
        description="Inspect a RocketMQ cluster, send to it, and manage its topics.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add_command(run: Command, name: str, *places: str) -> argparse.ArgumentParser:
        about = run.__doc__
        added = commands.add_parser(name, help=about, description=about, parents=[anywhere])
        for place in places:
            added.add_argument(place)
        added.set_defaults(run=run)
        return added

    add_command(looking.show_route, "route", "topic")
    topics = add_command(looking.show_topics, "topics")
    topics.add_argument("--all", action="store_true", help="also RocketMQ's own topics")
    add_command(looking.show_members, "members", "group", "topic")
    add_command(looking.show_lag, "lag", "group", "topic")
    tailing = add_command(looking.tail, "tail", "topic")
    tailing.add_argument(
        "--from", dest="start", type=printing.parse_place, default=printing.LATEST,
        help="earliest, latest, or ms",
    )  # fmt: skip
    tailing.add_argument("--no-follow", dest="follow", action="store_false", help="stop at the end")
    tailing.add_argument("--queue", metavar="BROKER:ID", help="only this queue")
    wanted = tailing.add_mutually_exclusive_group()
    wanted.add_argument("--tags", help="only these tags, as in 'paid || refunded'")
    wanted.add_argument("--sql", help="an SQL92 condition; brokers may have it disabled")
    tailing.add_argument(
        "--group", default="mq_client-tail", help="the group to read as; nothing is committed"
    )
    add_command(looking.show_groups, "groups")
    pops = add_command(changing.pop, "pop", "group", "topic")
    pops.add_argument("--most", type=_accept_up_to(MOST_POPPED), default=1, help="from each broker")
    pops.add_argument(
        "--invisible", type=_accept_up_to(MOST_INVISIBLE), default=60, metavar="SECONDS",
        help="when they come again; default: 60",
    )  # fmt: skip
    pops.add_argument("--ack", action="store_true", help="nobody gets them again")
    sends = add_command(sending.send, "send", "topic")
    sends.add_argument("body", nargs="?", help="default: the standard input, line by line")
    sends.add_argument("--tags")
    sends.add_argument("--key", action="append", default=[], help="may be repeated")
    sends.add_argument("--delay-level", type=_accept_up_to(MOST_DELAY), help="1 to 18: 1 s to 2 h")
    sends.add_argument(
        "--queue", metavar="BROKER:ID", help="send to this queue; default: round robin"
    )
    creates = add_command(changing.create_topic, "create-topic", "topic")
    creates.add_argument(
        "--queues", type=_accept_up_to(MOST_QUEUES), default=8, help="on each broker; default: 8"
    )
    creates.add_argument(
        "--broker", action="append", default=[], help="only on this broker; may be repeated"
    )
    add_command(changing.delete_topic, "delete-topic", "topic")
    resets = add_command(changing.reset_offsets, "reset-offsets", "group", "topic")
    resets.add_argument(
        "--to",
        dest="place",
        type=printing.parse_place,
        required=True,
        help="earliest, latest, or ms",
    )
    resets.add_argument("--queue", metavar="BROKER:ID", help="only this queue")
    return parser


def _accept_up_to(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        found = printing.parse_number(text)
        if found is None or not 1 <= found <= most:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1 to {most}")
        return found

    return read


UNLESS_GIVEN = {
    "name_server": None, "access_key": None, "tls": False, "tls_ca": None, "output": "table"
}  # fmt: skip


def _make_common_options() -> _CommandParser:
    """
    Make the options that may be given before or after the command.

    They have no defaults, because a default after the command would overwrite a value given before
    the command.
    """
    found = _CommandParser(add_help=False, argument_default=argparse.SUPPRESS)
    found.add_argument("--name-server", metavar="HOST:PORT", help="default: NAMESRV_ADDR")
    access.add_options(found)
    found.add_argument("-o", "--output", choices=["table", "json"], help="default: table")
    return found
