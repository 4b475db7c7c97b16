"""
Makes Linux namespaces for a node: its own network, mounts and processes.

Nothing has to be undone step by step. When the node's first process ends, the kernel ends all other
processes of the node, and removes the node's mounts, interfaces, routes and rules. Only two things
are outside the namespaces: cgroups, and one end of the network link to the node. If this process is
killed, empty cgroups stay until the next node is made.
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
from sandbox.waiting import wait_for

# Addresses for network benchmarks (RFC 2544), which hardly any machine uses.
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
    """The namespaces in which the node's programs start."""

    place: process.Folder
    site: Site

    def run(self, *command: str | Path) -> str:
        """Run a program in the namespaces, and return its output."""
        return _run(command, self.site.enter)


def _run(command: Sequence[str | Path], enter: Sequence[str] = ()) -> str:
    done = subprocess.run([*enter, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GroundError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def make() -> Iterator[Ground]:
    """Make the namespaces; call `check` first. Only one node can run on a machine at a time."""
    with _lock_machine(), process.make_folder("evenkeel-node-") as place:
        _sweep()
        started = process.ChildProcess("ground", _make_command(), place, {})
        try:
            started.wait_until(lambda: started.has_said(first.READY), _START_SECONDS)
            pid = _find_first_process(started.pid)
            _connect(pid)
            _make_cgroups()
            enter = ("nsenter", f"--target={pid}", "--net", "--mount", "--pid", "--")
            yield Ground(place, Site(ADDRESS, enter))
        finally:
            started.kill()
            _sweep()


def check() -> None:
    """Raise an error if this machine cannot run a node. Call this before any long step."""
    if os.geteuid() != 0:
        raise GroundError("a node needs root: it makes namespaces, mounts and interfaces")
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise GroundError(f"a node needs {', '.join(missing)}, of util-linux and iproute2")
    if not Path("/proc/sys/net/bridge").exists():
        raise GroundError("a node needs packet filters on bridges: modprobe br_netfilter")


@contextlib.contextmanager
def _lock_machine() -> Iterator[None]:
    """Hold this machine's lock: two nodes would use the same names of interfaces and cgroups."""
    lock = Path("/run/lock", f"{CGROUP}.lock")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GroundError(f"another node runs on this machine: it holds {lock}") from error
        yield
        lock.unlink()


def _make_command() -> Sequence[str | Path]:
    python = (sys.executable, "-I", "-S", Path(first.__file__))
    namespaces = ("--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--mount-proc")
    return ("unshare", *namespaces, "--kill-child", "--propagation=private", *python)


def _find_first_process(pid: int) -> int:
    """Find the outer pid of the node's first process, which is the only child of `unshare`."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def _connect(pid: int) -> None:
    """Connect this machine with the node, and make routes to its pods and services."""
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


def _list_hierarchies() -> list[Path]:
    """List the cgroup hierarchies: version 2 has one, version 1 has many."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [each for each in _CGROUPS.iterdir() if each.is_dir() and not each.is_symlink()]


def _make_cgroups() -> None:
    try:
        for hierarchy in _list_hierarchies():
            (hierarchy / CGROUP).mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):
                setting = hierarchy / CGROUP / name
                if setting.exists() and not setting.read_text().strip():
                    setting.write_text((hierarchy / name).read_text())
    except OSError as error:
        raise GroundError(f"a node needs to create cgroups: {error}") from error


def _sweep() -> None:
    """Remove what a killed run left: the interface, and cgroups whose processes have ended."""
    subprocess.run(["ip", "link", "delete", LINK], capture_output=True, check=False)
    left = wait_for(_remove_cgroups, lambda left: not left)
    if left:
        raise GroundError(f"processes of an earlier node still run, in {left[0]}")


def _remove_cgroups() -> list[Path]:
    """Remove empty cgroups, the innermost first. Return the cgroups that are left."""
    left = []
    for hierarchy in _list_hierarchies():
        root = hierarchy / CGROUP
        for folder in [*sorted(root.rglob("*/"), reverse=True), root]:
            state = folder / "freezer.state"
            try:
                if state.exists():
                    # A process that was killed while it was frozen ends only when it is thawed.
                    state.write_text("THAWED")
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                left.append(folder)
    return left
