"""What is promised beside what was seen, a line a figure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What we promise, beside what was seen."""

    name: str
    ours: float
    peer: float | None
    limit: float
    unit: str = "/s"
    at_least: bool = True

    @property
    def value(self) -> float:
        """What the limit is compared with: a ratio where there is a peer."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def is_ok(self) -> bool:
        """Whether the promise holds."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def lines(figures: Iterable[Figure]) -> Iterator[str]:
    """One line a figure: name, ours, peer, ratio, target, ok or short."""
    for figure in figures:
        peer = "-" if figure.peer is None else _quantity(figure.peer, figure.unit)
        ratio = "-" if figure.peer is None else f"{figure.value:.3f}"
        limit = f"{figure.limit:,g}" if figure.peer else _quantity(figure.limit, figure.unit)
        target = f"{'>=' if figure.at_least else '<='} {limit}"
        yield (
            f"{figure.name:<74} {_quantity(figure.ours, figure.unit):>13} {peer:>13} {ratio:>7} "
            f"{target:>14}  {'ok' if figure.is_ok else 'short'}"
        )


def _quantity(value: float, unit: str) -> str:
    return f"{value:,.0f}/s" if unit == "/s" else f"{value:.2f} {unit}"
