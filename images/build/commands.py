"""Writes the commands that pyproject.toml names: `commands.py pyproject.toml FOLDER`."""

import sys
import tomllib
from pathlib import Path

COMMAND = """\
#!/opt/evenkeel/venv/bin/python
import sys

from {module} import {function}

sys.exit({function}())
"""


def write(project: Path, folder: Path) -> None:
    """Write all commands as scripts, which need the packages only when they run."""
    scripts = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["scripts"]
    folder.mkdir(parents=True)
    for name, target in scripts.items():
        module, _, function = target.partition(":")
        path = folder / name
        path.write_text(COMMAND.format(module=module, function=function), encoding="utf-8")
        path.chmod(0o755)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
