"""
Runs programs of an image as a cluster would, without a container engine.

The root is read-only except /tmp and /work, the user has no rights, and the processes see only each
other. The network is that of the machine.
"""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 300.0
_INSIDE = """
root=$1 user=$2 group=$3; shift 3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind /etc/hosts "$root/etc/hosts"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=0777 work "$root/work"
# Debian's paths of the programs inside: the PATH of the host may lack their folders.
exec chroot "$root" /usr/bin/setpriv --reuid "$user" --regid "$group" --clear-groups \
    --no-new-privs --bounding-set=-all --inh-caps=-all /usr/bin/env -i "$@"
"""


@dataclass(frozen=True)
class Box:
    """The files of an image, and its configuration."""

    root: Path
    config: dict[str, Any]

    @property
    def entrypoint(self) -> list[str]:
        found: list[str] = self.config["Entrypoint"]
        return found

    @property
    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.config["Labels"]
        return found

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the entry point with arguments until it ends."""
        return _done(self._command([*self.entrypoint, *arguments], {}))

    def tell(self, *command: str) -> str:
        """Run another program, and return its output."""
        answer = _done(self._command(["/usr/bin/tini", "--", *command], {}))
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    @contextlib.contextmanager
    def started(
        self, *command: str, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a command without adding the entry point. It ends at the latest with the block."""
        pipe = subprocess.PIPE
        ours = self._command([*command], environment or {})
        child = subprocess.Popen(ours, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        with child:
            try:
                yield child
            finally:
                child.kill()

    def _command(self, command: list[str], environment: Mapping[str, str]) -> list[str]:
        user, _, group = self.config["User"].partition(":")
        added = [f"{name}={value}" for name, value in environment.items()]
        return [
            "setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=private", "--pid",
            "--fork", "--kill-child", "sh", "-euc", _INSIDE, "sh", str(self.root), user, group,
            f"--chdir={self.config['WorkingDir']}", *self.config["Env"], *added, *command,
        ]  # fmt: skip


def first_process(child: subprocess.Popen[str]) -> int:
    """Find the process that has the pid 1 inside its box."""
    return int(Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text())


def tell_beside(child: subprocess.Popen[str], *command: str) -> None:
    """Run another program in the box of a running one, as the same user, until one of them ends."""
    inside = ["nsenter", f"--target={first_process(child)}", "--mount", "--pid", "--root", "--wd"]
    _done(
        [*inside, "/usr/bin/setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", *command]
    )


def _done(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
