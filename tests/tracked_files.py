"""
Searches all files that git tracks, or would track, for text that must never be committed.

Run it from the checkout's root: `python -m tests.tracked_files`. Forbidden text is written here
with brackets or in parts, so that this file does not find itself.
"""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

_REGISTRIES = (
    r"pypi[.]org", r"python[h]osted[.]org", r"crates[.]io", r"npmjs[.](?:org|com)",
    r"(?:proxy|sum)[.]golang[.]org", r"repo\d?[.]maven", r"deb[.]debian[.]org",
)  # fmt: skip
_FORBIDDEN = {
    "names a package registry": re.compile("|".join(_REGISTRIES), re.I),
    "holds a path of one machine": re.compile(
        r"(?<![\w.~*)}\]>$-])/(?:root|work|home/\w+|Users/\w+)/(?=\w|\.)"
    ),
    "imports from a test module": re.compile(
        r"^ *(?:from|import) tests\b(?:[.]\w+)*(?:[.]| import .*\b)test_", re.M
    ),
    "holds a private key": re.compile("-----BEGIN [A-Z ]*" + "PRIVATE KEY"),
}


class CannotListError(Exception):
    """Git is missing or fails, so the tracked files are unknown."""


def tracked(root: Path) -> list[Path]:
    """List the files that git tracks here, and new files that it does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True)
    except FileNotFoundError as error:
        raise CannotListError("git is not on PATH") from error
    except subprocess.CalledProcessError as error:
        raise CannotListError(f"git ls-files: {error.stderr.strip()}") from error
    paths = (root / name for name in answer.stdout.split("\0") if name)
    return sorted(path for path in paths if path.is_file())


def complaints(path: Path) -> Iterator[str]:
    """List what is wrong in one file, with line numbers."""
    text = path.read_bytes().decode(errors="replace")
    for what, pattern in _FORBIDDEN.items():
        for found in pattern.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {what}: {found[0]}"
    try:
        if path.suffix == ".toml":
            tomllib.loads(text)
        elif path.suffix == ".json":
            json.loads(text)
    except ValueError as error:
        yield f"{path}: does not parse: {error}"


def main() -> int:
    """Print the complaints; the exit code is 1 when there are any."""
    try:
        files = tracked(Path())
    except CannotListError as error:
        print(f"cannot check the tracked files: {error}", file=sys.stderr)
        return 1
    found = [line for path in files for line in complaints(path)]
    print("\n".join([*found, f"{len(files)} tracked files, {len(found)} complaints"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
