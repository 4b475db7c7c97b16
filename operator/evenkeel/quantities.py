"""Parses quantities of memory as in Kubernetes, such as 1500Mi or 1.5G."""

import re

_MIB = {
    "m": 0.001 / 2**20, "": 1 / 2**20, "k": 10**3 / 2**20, "M": 10**6 / 2**20, "G": 10**9 / 2**20,
    "Ki": 2**-10, "Mi": 1.0, "Gi": 2.0**10,
}  # fmt: skip


def parse_mib(quantity: str) -> int:
    """Parse a quantity to MiB, rounded down."""
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", quantity)
    assert match is not None  # the schema does not allow other strings
    return int(float(match[1]) * _MIB[match[2]])
