"""How a container's memory is shared by Java's heap and all the rest."""

import re
from dataclasses import dataclass

LEAST_HEAP_MIB = 480
"""Spark wants 450; Java counts a part of its heap out."""
_MIB = {
    "m": 0.001 / 2**20, "": 1 / 2**20, "k": 10**3 / 2**20, "M": 10**6 / 2**20, "G": 10**9 / 2**20,
    "Ki": 2**-10, "Mi": 1.0, "Gi": 2.0**10,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Split:
    """Both parts, in MiB; together they are the container's."""

    heap: int
    rest: int


class TooLittleError(ValueError):
    """The heap would be smaller than Spark takes."""

    def __init__(self, heap: int, needed: int) -> None:
        """Tell how much there is, and how much the container needs."""
        super().__init__(heap, needed)
        self.heap = heap
        self.needed = needed


def split(quantity: str, factor: float) -> Split:
    """Give the rest `factor` times as much as the heap, as Spark counts its overhead."""
    whole = mib(quantity)
    heap = int(whole / (1 + factor))
    if heap < LEAST_HEAP_MIB:
        raise TooLittleError(heap, int(LEAST_HEAP_MIB * (1 + factor)) + 1)
    return Split(heap, whole - heap)


def mib(quantity: str) -> int:
    """Read a quantity of Kubernetes, rounded down."""
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", quantity)
    assert match is not None  # the schema takes nothing else
    return int(float(match[1]) * _MIB[match[2]])
