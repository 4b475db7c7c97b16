"""What the pages of all benchmarks have in common."""

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path


def machine() -> str:
    """Name the machine."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    model = names[0] if names else platform.processor() or platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"Machine: {model}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}"


def said(*command: str) -> str:
    """First line of what a program says about itself; Java says it on stderr."""
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return (answer.stdout or answer.stderr).splitlines()[0]


def text(title: str, facts: Iterable[str], words: str, body: Iterable[str]) -> str:
    """Put a page together but for its observations: the facts stand behind the machine."""
    listed = "\n".join(f"- {fact}" for fact in [machine(), *facts])
    shown = "\n".join(body).strip("\n")
    return f"# {title}\n\n{listed}\n\n{words}\n\n```text\n{shown}\n```\n"


def write(path: Path, page: str) -> None:
    """Replace a page; what somebody wrote about the last run stays, to be looked through again."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    observations = old.partition("\n## Observations\n")[2]
    path.write_text(f"{page}\n## Observations\n{observations}", encoding="utf-8")
    print(f"wrote {path}; look through its observations")
