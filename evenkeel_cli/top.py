"""`evenkeel top`: shows consumers, their queues, their rates and their lag."""

import argparse
import contextlib
import signal
import time

from rich.console import Console
from rich.console import Group as Lines
from rich.live import Live
from rich.text import Text

from evenkeel.errors import EvenkeelError
from evenkeel.objects import Key
from evenkeel_cli import options as told
from evenkeel_cli import saying
from evenkeel_cli.cluster import connecting
from evenkeel_cli.cluster.views import LiveView, OfAll, OfOne
from evenkeel_cli.codes import DONE

LOOK_SECONDS = 2.0
"""Seconds between two reads. Rates need two reads, so printing once may take this long."""
TEXT = (
    "Shows all groups, or the consumers of one group with their queues, rates and lag. On a "
    "terminal it updates until Ctrl-C; otherwise it prints once. Lag and rates by consumer come "
    "from the driver of the job through the API server, which needs the right to get pods/proxy. "
    "Without that right, the lag comes from the status."
)
EXAMPLES = """\
  %(prog)s                   # all groups of the namespace, live
  %(prog)s -A --once         # all groups of the cluster, once
  %(prog)s billing           # one group: its consumers and a map of its queues
  %(prog)s billing -o json
"""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(parser, TEXT, EXAMPLES)
    parser.add_argument(
        "group", type=told.parse_name, metavar="GROUP", nargs="?", help="name of a ConsumerGroup"
    )
    parser.add_argument("--once", action="store_true", help="print once, even on a terminal")
    told.add_output_option(parser)
    told.add_cluster_options(parser, everywhere=True)
    parser.set_defaults(command=_top)


def _top(options: argparse.Namespace) -> int:
    cluster = connecting.connect(options)
    view: LiveView = (
        OfOne(cluster, Key(cluster.namespace, options.group))
        if options.group
        else OfAll(cluster, connecting.choose_namespace(options, cluster))
    )
    view.look()
    console = Console(highlight=False)
    is_once = options.once or options.output != told.OUTPUTS[0] or not console.is_terminal
    if not is_once:
        _watch(console, view)
        return DONE
    if view.gains_from_another_look:
        time.sleep(LOOK_SECONDS)
        view.look()
    text = "\n".join(line.plain for line in view.draw())
    if options.output == told.OUTPUTS[0] and console.is_terminal:
        console.print(*view.draw(), sep="\n", soft_wrap=True)
    else:
        saying.print_answer(options.output, view.describe(), text)
    return DONE


def _watch(console: Console, view: LiveView) -> None:
    """Update until Ctrl-C. While the API server does not answer, the last picture stays."""
    hint = Text("press Ctrl-C to exit", "dim")
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        contextlib.ExitStack() as after,
        contextlib.suppress(KeyboardInterrupt),
        Live(Lines(*view.draw(), hint), console=console, auto_refresh=False) as live,
    ):
        after.callback(signal.signal, signal.SIGTERM, before)
        while True:
            time.sleep(LOOK_SECONDS)
            try:
                view.look()
                last = hint
            except EvenkeelError as error:
                last = Text(str(error), "red")
            live.update(Lines(*view.draw(), last), refresh=True)
