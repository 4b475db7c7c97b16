"""Splits a container's memory into Java's heap and the rest."""

from dataclasses import dataclass

from evenkeel import quantities

LEAST_HEAP_MIB = 480
"""Minimum heap. Spark needs 450 MiB, and Java reports less than the whole heap."""


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """The two parts of a container's memory, in MiB."""

    heap: int
    rest: int


class TooLittleError(ValueError):
    """The heap would be too small for Spark."""

    def __init__(self, heap: int, needed: int) -> None:
        """Store the heap that would result, and the memory that the container needs."""
        super().__init__(heap, needed)
        self.heap = heap
        self.needed = needed


def split(quantity: str, factor: float) -> MemorySplit:
    """Split memory. The rest is `factor` times the heap, as in Spark's computation of overhead."""
    whole = quantities.parse_mib(quantity)
    heap = int(whole / (1 + factor))
    if heap < LEAST_HEAP_MIB:
        raise TooLittleError(heap, int(LEAST_HEAP_MIB * (1 + factor)) + 1)
    return MemorySplit(heap, whole - heap)
