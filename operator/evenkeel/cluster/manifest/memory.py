"""How a container's memory is shared by Java's heap and all the rest."""

from dataclasses import dataclass

from evenkeel import quantities

LEAST_HEAP_MIB = 480
"""Spark wants 450; Java counts a part of its heap out."""


@dataclass(frozen=True, slots=True)
class MemorySplit:
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


def split(quantity: str, factor: float) -> MemorySplit:
    """Give the rest `factor` times as much as the heap, as Spark counts its overhead."""
    whole = quantities.mib(quantity)
    heap = int(whole / (1 + factor))
    if heap < LEAST_HEAP_MIB:
        raise TooLittleError(heap, int(LEAST_HEAP_MIB * (1 + factor)) + 1)
    return MemorySplit(heap, whole - heap)
