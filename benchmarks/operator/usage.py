"""Reads the CPU time and memory of a process, as Linux counts them."""

import os
import re
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_KIB_A_MIB = 1024


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:13]) / _TICKS


def rss_mib(pid: int) -> float:
    """Return the memory that a process holds now."""
    return _read_status(pid, "VmRSS")


def peak_mib(pid: int) -> float:
    """Return the highest memory that a process has held."""
    return _read_status(pid, "VmHWM")


def _read_status(pid: int, name: str) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{name}:\s*(\d+) kB$", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) / _KIB_A_MIB
