"""Compare measured figures with their targets."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

HEAD = "| figure | Evenkeel | peer | ratio | target | |\n|---|---:|---:|---:|---:|---|\n"
"""The heading of the table whose rows `format_cells` makes."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure and its target."""

    name: str
    ours: float
    peer: float | None
    limit: float
    unit: str = "/s"
    at_least: bool = True

    @property
    def value(self) -> float:
        """The value to compare with the limit: a ratio if there is a peer."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def is_ok(self) -> bool:
        """Whether the target is met."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def format_lines(figures: Iterable[Figure]) -> Iterator[str]:
    """Yield a line per figure for the terminal: name, ours, peer, ratio, target, ok or missed."""
    for name, ours, peer, ratio, target, result in map(format_cells, figures):
        yield f"{name:<74} {ours:>13} {peer:>13} {ratio:>7} {target:>14}  {result}"


def format_cells(figure: Figure) -> tuple[str, str, str, str, str, str]:
    """Return the cells of a row: name, ours, peer, ratio, target, and ok or missed."""
    limit = f"{figure.limit:,g}" if figure.peer else _quantity(figure.limit, figure.unit)
    return (
        figure.name,
        _quantity(figure.ours, figure.unit),
        "-" if figure.peer is None else _quantity(figure.peer, figure.unit),
        "-" if figure.peer is None else f"{figure.value:.3f}",
        f"{'>=' if figure.at_least else '<='} {limit}",
        "ok" if figure.is_ok else "missed",
    )


def _quantity(value: float, unit: str) -> str:
    return f"{value:,.0f}/s" if unit == "/s" else f"{value:.2f} {unit}"
