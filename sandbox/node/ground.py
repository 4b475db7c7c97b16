"""
What a node stands on: a network, mounts and processes of its own, by Linux' namespaces.

Nothing has to be undone one by one. When the first process ends, the kernel ends all others of the
node, and with them go its mounts, interfaces, routes and rules. Outside there are one interface,
whose other end is the node's, and groups of processes (cgroups), which a kill leaves behind, empty:
they go when the ground is left, or before the next one is made.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox import process
from sandbox.node import first
from sandbox.server import Site
from sandbox.waiting import eventually

# From the block that is set aside for benchmarks of networks (RFC 2544): hardly a machine has them.
OUTSIDE, ADDRESS = "198.18.0.1", "198.18.0.2"
PODS = "198.18.16.0/20"
SERVICES = "198.19.0.0/24"
LINK = "evenkeel0"
CGROUP = "evenkeel-node"
_CGROUPS = Path("/sys/fs/cgroup")
_START_SECONDS = 10.0
_PROGRAMS = ("unshare", "nsenter", "ip", "mount")


class GroundError(process.SandboxError):
    """A node cannot be started here."""


@dataclass(frozen=True)
class Ground:
    """Where the node's programs are started."""

    place: process.Folder
    site: Site

    def run(self, *command: str | Path) -> str:
        """Run a program in it to its end; what it printed."""
        return _run(command, self.site.enter)


def _run(command: Sequence[str | Path], enter: Sequence[str] = ()) -> str:
    done = subprocess.run([*enter, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GroundError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def made() -> Iterator[Ground]:
    """Make it, once at a time on this machine, which was checked."""
    with _alone(), process.folder("evenkeel-node-") as place:
        _sweep()
        started = process.Process("ground", _command(), place, {})
        try:
            started.wait_until(lambda: started.has_said(first.READY), _START_SECONDS)
            pid = _child(started.pid)
            _connect(pid)
            _make_cgroups()
            enter = ("nsenter", f"--target={pid}", "--net", "--mount", "--pid", "--")
            yield Ground(place, Site(ADDRESS, enter))
        finally:
            started.kill()
            _sweep()


def check() -> None:
    """See whether a node can be made here, before anything long is begun."""
    if os.geteuid() != 0:
        raise GroundError("a node needs root: it makes namespaces, mounts and interfaces")
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise GroundError(f"a node needs {', '.join(missing)}, of util-linux and iproute2")
    if not Path("/proc/sys/net/bridge").exists():
        raise GroundError("a node needs bridges whose packets are filtered: modprobe br_netfilter")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """All of its names are there once on a machine."""
    lock = Path("/run/lock", f"{CGROUP}.lock")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GroundError(f"another node is up on this machine: it holds {lock}") from error
        yield
        lock.unlink()


def _command() -> Sequence[str | Path]:
    python = (sys.executable, "-I", "-S", Path(first.__file__))
    namespaces = ("--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--mount-proc")
    return ("unshare", *namespaces, "--kill-child", "--propagation=private", *python)


def _child(pid: int) -> int:
    """Find the first process as this machine sees it: `unshare` has one child."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def _connect(pid: int) -> None:
    """Let this machine and the node reach each other, and this machine the pods."""
    inside = ("nsenter", f"--target={pid}", "--net")
    for command in (
        ("ip", "link", "add", LINK, "type", "veth", "peer", "name", "eth0", "netns", str(pid)),
        ("ip", "address", "add", f"{OUTSIDE}/30", "dev", LINK),
        ("ip", "link", "set", LINK, "up"),
        (*inside, "ip", "address", "add", f"{ADDRESS}/30", "dev", "eth0"),
        (*inside, "ip", "link", "set", "eth0", "up"),
        (*inside, "ip", "route", "add", "default", "via", OUTSIDE),
        ("ip", "route", "add", PODS, "via", ADDRESS),
        ("ip", "route", "add", SERVICES, "via", ADDRESS),
    ):
        _run(command)


def _hierarchies() -> list[Path]:
    """One with version 2 of cgroups, many with version 1."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [each for each in _CGROUPS.iterdir() if each.is_dir() and not each.is_symlink()]


def _make_cgroups() -> None:
    try:
        for hierarchy in _hierarchies():
            (hierarchy / CGROUP).mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                setting = hierarchy / CGROUP / name
                if setting.exists() and not setting.read_text().strip():
                    setting.write_text((hierarchy / name).read_text())
    except OSError as error:
        raise GroundError(f"a node needs to make groups of processes: {error}") from error


def _sweep() -> None:
    """Take away what a kill leaves: the interface at once, groups when the last process is gone."""
    subprocess.run(["ip", "link", "delete", LINK], capture_output=True, check=False)
    left = eventually(_cgroups_left, lambda left: not left)
    if left:
        raise GroundError(f"processes of an earlier node are still there, in {left[0]}")


def _cgroups_left() -> list[Path]:
    """Remove what is empty, the innermost first."""
    left = []
    for hierarchy in _hierarchies():
        root = hierarchy / CGROUP
        for folder in [*sorted(root.rglob("*/"), reverse=True), root]:
            state = folder / "freezer.state"
            try:
                if state.exists():
                    state.write_text("THAWED")  # else what was killed while frozen never ends
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                left.append(folder)
    return left
