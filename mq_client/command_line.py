"""
Look into a RocketMQ cluster, send to it, and keep its topics, from the command line.

    python -m mq_client --name-server localhost:9876 topics
    python -m mq_client lag billing orders -o json
"""

import argparse
import io
import os
import ssl
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from mq_client import errors
from mq_client.acl import Credentials
from mq_client.blocking import Client
from mq_client.tools import changing, looking, printing, sending

EXAMPLES = """
examples:
  export NAMESRV_ADDR=localhost:9876     # or --name-server, each time
  python -m mq_client create-topic orders --queues 8
  python -m mq_client topics             # all topics, without RocketMQ's own
  python -m mq_client route orders       # brokers, addresses, queues, perm
  python -m mq_client members billing orders
  python -m mq_client lag billing orders
  python -m mq_client tail orders --from earliest --tags 'paid || refunded'
  python -m mq_client send orders 'hello' --tags paid --key o-17
  python -m mq_client reset-offsets billing orders --to earliest
  python -m mq_client delete-topic orders

exit codes: 0 done, 1 the cluster could not answer or said no, 64 wrong usage, 130 Ctrl-C
"""
MISUSED = 64
"""Exit code for wrong usage, the same as in `evenkeel`."""
MOST_QUEUES = 65_535
MOST_DELAY = 18
"""Levels that a broker has by default; it treats a higher one as its last."""
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
    """Keep Python from writing again at the exit, and complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


class _Parser(argparse.ArgumentParser):
    """Exits with the same code as `evenkeel` on wrong usage."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        self.exit(MISUSED, f"mq_client: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    anywhere = _options_for_all_commands()
    parser = _Parser(
        parents=[anywhere],
        prog="python -m mq_client",
        description="Look into a RocketMQ cluster, send to it, and keep its topics.",
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

    command(looking.show_route, "route", "topic")
    topics = command(looking.show_topics, "topics")
    topics.add_argument("--all", action="store_true", help="also those of RocketMQ itself")
    command(looking.show_members, "members", "group", "topic")
    command(looking.show_lag, "lag", "group", "topic")
    tailing = command(looking.tail, "tail", "topic")
    tailing.add_argument(
        "--from", dest="start", type=printing.place, default=printing.LATEST,
        help="earliest, latest, or ms",
    )  # fmt: skip
    tailing.add_argument("--no-follow", dest="follow", action="store_false", help="stop at the end")
    tailing.add_argument("--queue", metavar="BROKER:ID", help="only this one")
    wanted = tailing.add_mutually_exclusive_group()
    wanted.add_argument("--tags", help="only these, as in 'paid || refunded'")
    wanted.add_argument("--sql", help="an SQL92 condition; brokers may have it switched off")
    tailing.add_argument("--group", default="mq_client-tail", help="read as; nothing is committed")
    sends = command(sending.send, "send", "topic")
    sends.add_argument("body", nargs="?", help="else the standard input, line by line")
    sends.add_argument("--tags")
    sends.add_argument("--key", action="append", default=[], help="may be given again")
    sends.add_argument("--delay-level", type=_from_1_to(MOST_DELAY), help="1 to 18: 1 s to 2 h")
    sends.add_argument("--queue", metavar="BROKER:ID", help="instead of round robin")
    creates = command(changing.create_topic, "create-topic", "topic")
    creates.add_argument(
        "--queues", type=_from_1_to(MOST_QUEUES), default=8, help="on each broker; 8"
    )
    creates.add_argument(
        "--broker", action="append", default=[], help="only on this one; may be given again"
    )
    command(changing.delete_topic, "delete-topic", "topic")
    resets = command(changing.reset_offsets, "reset-offsets", "group", "topic")
    resets.add_argument(
        "--to", dest="place", type=printing.place, required=True, help="earliest, latest, or ms"
    )
    resets.add_argument("--queue", metavar="BROKER:ID", help="only this one")
    return parser


def _from_1_to(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        found = printing.number(text)
        if found is None or not 1 <= found <= most:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to {most}")
        return found

    return read


UNLESS_GIVEN = {
    "name_server": None, "access_key": None, "tls": False, "tls_ca": None, "output": "table"
}  # fmt: skip


def _options_for_all_commands() -> _Parser:
    """
    Make those that may stand before the command or behind it.

    They have no default of their own, or the command's would overwrite what was given before it.
    """
    found = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    found.add_argument("--name-server", metavar="HOST:PORT", help="else NAMESRV_ADDR")
    found.add_argument("--access-key", metavar="KEY", help="the secret is ROCKETMQ_SECRET_KEY")
    found.add_argument("--tls", action="store_true", help="speak TLS")
    found.add_argument("--tls-ca", metavar="FILE", help="speak TLS; trust these authorities")
    found.add_argument("-o", "--output", choices=["table", "json"], help="table unless given")
    return found
