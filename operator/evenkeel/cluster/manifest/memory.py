"""Splits a container's memory into Java's heap and the rest."""

from dataclasses import dataclass

from evenkeel import quantities

LEAST_HEAP_MIB = 480
"""Spark needs 450; Java does not count all of its heap."""


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """Both parts in MiB; together they are the container's memory."""

    heap: int
    rest: int


class TooLittleError(ValueError):
    """The heap would be too small for Spark."""

    def __init__(self, heap: int, needed: int) -> None:
        """Keep the heap that there would be, and the memory that the container needs."""
        super().__init__(heap, needed)
        self.heap = heap
        self.needed = needed


def split(quantity: str, factor: float) -> MemorySplit:
    """Split with a rest of `factor` times the heap, as Spark computes its overhead."""
    whole = quantities.parse_mib(quantity)
    heap = int(whole / (1 + factor))
    if heap < LEAST_HEAP_MIB:
        raise TooLittleError(heap, int(LEAST_HEAP_MIB * (1 + factor)) + 1)
    return MemorySplit(heap, whole - heap)
