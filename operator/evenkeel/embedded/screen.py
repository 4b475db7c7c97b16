"""The terminal output of embedded mode: owners of queues, rates and notices."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from contract.conditions import ConditionType
from evenkeel import objects, planning
from evenkeel.control import conditions
from evenkeel.control.groups.group_status import Notice
from evenkeel.embedded.driver import EmbeddedDriver
from evenkeel.embedded.world import FileWorld
from evenkeel.objects import Key

MOST_LINES = 12
LOG_WIDTH = 100
REFRESHES_A_SECOND = 4


class Screen:
    """Shows a live picture on a terminal. Without a terminal, it prints a line for each notice."""

    def __init__(self, console: Console | None = None) -> None:
        """Prepare the output."""
        self._console = console or Console()
        if not self._console.is_terminal:
            self._console.width = LOG_WIDTH
        self._lines: deque[Text] = deque(maxlen=MOST_LINES)
        self._tables: Callable[[], RenderableType] = lambda: Text()

    @contextmanager
    def show_world(self, world: FileWorld) -> Iterator[None]:
        """Show a world while the block runs."""
        handler = _ToScreen(self)
        logger = logging.getLogger("evenkeel")
        logger.addHandler(handler)
        self._tables = lambda: Group(
            *(self._draw_group(world, group) for group in world.list_groups())
        )
        try:
            if not self._console.is_terminal:
                yield
                return
            with Live(
                get_renderable=self._draw,
                console=self._console,
                refresh_per_second=REFRESHES_A_SECOND,
                transient=True,
            ):
                yield
            self._console.print(self._draw())
        finally:
            logger.removeHandler(handler)

    def show(self) -> None:
        """Print the current owners, unless a live picture shows them."""
        if not self._console.is_terminal:
            self._console.print(self._tables(), Text())

    def hear(self, key: Key, what: Notice) -> None:
        """Show a notice of an object."""
        self.say(f"{key}: {what.message}", "yellow" if what.is_warning else "green")

    def say(self, text: str, style: str = "") -> None:
        """Show a line."""
        line = Text(f"{datetime.now().astimezone():%H:%M:%S} ", "dim").append(text, style)
        self._lines.append(line)
        if not self._console.is_terminal:
            self._console.print(line, soft_wrap=True)

    def _draw(self) -> RenderableType:
        """Draw all groups, and below them the last lines of output."""
        return Group(self._tables(), Text(), *self._lines)

    def _draw_group(self, world: FileWorld, group: objects.ConsumerGroup) -> RenderableType:
        status = group.status
        adopted = "" if group.spec.job is None else f", adopted {status.adopted_epoch}"
        ready = conditions.find(status.conditions, ConditionType.READY)
        title = Text.assemble(
            (str(group.head.key), "bold"),
            f"  epoch {status.epoch}{adopted}  {status.queues} queues  "
            f"moved {status.moved}  lag {'-' if status.lag is None else status.lag}  ",
            (ready.reason if ready else "", "green" if ready and ready.holds else "yellow"),
        )
        followed = conditions.find(status.conditions, ConditionType.FOLLOWED)
        troubles = [each for each in (ready, followed) if each is not None and not each.holds]
        table = _make_table(group, world.find_process(group.head.key))
        return Group(title, table, *(Text(each.message, "yellow") for each in troubles))


def _make_table(group: objects.ConsumerGroup, driver: EmbeddedDriver | None) -> Table:
    """Make the table of consumers: who fills their slots, what they own, how fast a job reads."""
    has_members, has_job = planning.has_members(group), group.spec.job is not None
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("consumer", "member" if has_members else "executor", "queues"):
        table.add_column(name.upper())
    if has_job:
        table.add_column("ROWS/S", justify="right")
    for each in group.status.assignments:
        filler = each.pod if has_members else each.executor
        who = Text("empty", "yellow") if each.empty_since else Text(filler or "-")
        queues = ", ".join(f"{part.topic}@{part.broker} {part.ids}" for part in each.queues)
        rates = [f"{driver.rate(each.consumer) if driver else 0.0:.0f}"] if has_job else []
        table.add_row(each.consumer, who, queues or Text("none", "dim"), *rates)
    return table


class _ToScreen(logging.Handler):
    """Shows log lines on the screen."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.say(record.getMessage(), "red")
