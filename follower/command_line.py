"""
Follow an assignment with a handler of your own, from the command line.

    python -m follower shop.billing:handle --coordinator http://127.0.0.1:9410 --group shop/billing
"""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from contract import exit_codes
from follower.member import Follower, default_member
from follower.options import (
    MESSAGE_CALLS,
    QUEUE_THREADS,
    Begin,
    FollowerError,
    FollowerOptions,
    OnFailure,
)
from mq_client import access, errors

MISUSED = 64
"""Exit code for wrong usage, the same as in `evenkeel`."""
log = logging.getLogger("evenkeel.follower")
EPILOG = """
The handler is a plain or `async def` function that takes a list of messages. If it returns, the
messages are done. If it raises, it is called again.

exit codes: 0 stopped by SIGTERM or Ctrl-C, 64 wrong usage, 78 a user must change something first
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow until a signal arrives."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    try:
        follower = Follower(
            options.handler,
            coordinator=options.coordinator,
            group=options.group,
            member=options.member,
            token_file=options.token_file,
            ca_file=options.ca_file,
            options=FollowerOptions(
                batch=options.batch,
                arrow=options.arrow,
                threads=options.threads,
                processes=options.processes,
                attempts=options.attempts,
                on_failure=OnFailure(options.on_failure),
                dead_letter=options.dead_letter,
                begin=Begin(options.begin),
            ),
            metrics_port=options.metrics_port,
            credentials=access.read_credentials(options),
            tls=access.make_tls(options),
        )
        gc.freeze()  # otherwise the collector visits everything that Python has loaded
        asyncio.run(_run(follower))
    except (FollowerError, errors.UsageError) as error:
        print(f"follower: {error}", file=sys.stderr)
        return exit_codes.PERMANENT
    if follower.stuck:
        log.warning(
            "the handler has not returned for %s: the process exits without waiting for it",
            ", ".join(map(str, follower.stuck)),
        )
        logging.shutdown()
        sys.stdout.flush()
        os._exit(exit_codes.DONE)  # Python would wait for the threads
    return exit_codes.DONE


async def _run(follower: Follower) -> None:
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, follower.stop)
    await follower.run()


class _Parser(argparse.ArgumentParser):
    """Exits with the same code as `evenkeel` on wrong usage."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        self.exit(MISUSED, f"follower: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m follower",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("handler", metavar="MODULE:FUNCTION", help="the function that gets the messages")
    add("--coordinator", required=True, metavar="URL", help="where the coordinator answers")
    add("--group", required=True, metavar="NAMESPACE/NAME", help="the ConsumerGroup")
    add(
        "--member", metavar="NAME",
        help="this member's name; default: $POD_NAME, otherwise host and process id: "
        f"{default_member()}",
    )  # fmt: skip
    add(
        "--token-file", metavar="FILE",
        help="file with the token for the coordinator; read again for each request",
    )  # fmt: skip
    add(
        "--ca-file", metavar="FILE",
        help="PEM file with the authorities to trust for the coordinator's certificate; read again "
        "for each request; default: the authorities of the machine",
    )  # fmt: skip
    access.add_options(parser.add_argument_group("brokers"))
    default = FollowerOptions()
    add(
        "--batch", type=_count, default=default.batch, metavar="N",
        help="maximum number of messages in one call of the handler; default %(default)s",
    )  # fmt: skip
    add(
        "--threads", type=_count, default=default.threads, metavar="N",
        help="maximum number of calls at the same time; default "
        f"{QUEUE_THREADS}, or {MESSAGE_CALLS} in a group that is balanced by message",
    )  # fmt: skip
    add(
        "--processes", type=_count, default=default.processes, metavar="N",
        help="run the handler in this number of processes; default: in threads of this process",
    )  # fmt: skip
    add("--arrow", action="store_true", help="give the handler Arrow columns; needs pyarrow")
    add(
        "--attempts", type=_count, default=default.attempts, metavar="N",
        help="number of failed calls after which a message is given up; default %(default)s",
    )  # fmt: skip
    add(
        "--on-failure", choices=[each.value for each in OnFailure],
        default=default.on_failure.value,
        help="for a message that is given up: stop its queue, skip the message, or send it to the "
        "dead-letter topic; default %(default)s",
    )  # fmt: skip
    add(
        "--dead-letter", metavar="TOPIC",
        help="the dead-letter topic; default: %%DLQ%% and the group's name",
    )  # fmt: skip
    add(
        "--begin", choices=[each.value for each in Begin], default=default.begin.value,
        help="where to begin in a queue that the group has never read; default %(default)s",
    )  # fmt: skip
    add(
        "--metrics-port", type=_port, default=0, metavar="PORT",
        help="serve /metrics, /healthz and /readyz on this port; default: do not serve them",
    )  # fmt: skip
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 100_000):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 100,000")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)
