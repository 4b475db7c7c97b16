"""Makes the parts that all pages of results have in common."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import targets


def machine() -> str:
    """Name the machine."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    model = names[0] if names else platform.processor() or platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"Machine: {model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}"


def ask_program(*command: str) -> str:
    """Return the first line of a program's output; Java prints its version to stderr."""
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return (answer.stdout or answer.stderr).splitlines()[0]


def format_page(
    title: str,
    facts: Iterable[str],
    words: str,
    body: Iterable[str],
    figures: Iterable[Sequence[str]] = (),
) -> str:
    """Make a page without its observations; a figure is a row of cells under `targets.HEAD`."""
    listed = "\n".join(f"- {fact}" for fact in [machine(), *facts])
    shown = "\n".join(body).strip("\n")
    compared = "".join(f"| {' | '.join(cells)} |\n" for cells in figures)
    compared = f"\n## Targets\n\n{targets.HEAD}{compared}" if compared else ""
    return f"# {title}\n\n{listed}\n\n{words}\n\n```text\n{shown}\n```\n{compared}"


def write(path: Path, page: str) -> None:
    """Replace a page, but keep its observations. Review them: they describe the previous run."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    observations = old.partition("\n## Observations\n")[2]
    path.write_text(f"{page}\n## Observations\n{observations}", encoding="utf-8")
    print(f"wrote {path}; review its observations")
