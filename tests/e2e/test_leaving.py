"""However a node ends, it leaves nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.node.ground import CGROUP
from sandbox.node.shop import ROOT
from sandbox.waiting import wait_for

UP = [sys.executable, "-m", "sandbox", "node", "up"]


def seen() -> dict[str, list[str]]:
    """List all things on this machine that a node may have created."""
    found = {
        "mounts": Path("/proc/self/mountinfo").read_text().splitlines(),
        "interfaces": os.listdir("/sys/class/net"),  # noqa: PTH208 only the names
        "routes": told("ip", "route", "show", "table", "all"),
        "namespaces": told("ip", "netns", "list"),
        "rules": told("nft", "--stateless", "list", "ruleset") + told("iptables-save"),
        "processes": [line for line in running() if is_of_a_node(line)],
    }
    return {kind: sorted(each) for kind, each in found.items()}


def told(*command: str) -> list[str]:
    """Run a program, if it exists; return its lines without times and counts."""
    if shutil.which(command[0]) is None:
        return []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    return [re.sub(r"expires \d+sec|\[\d+:\d+\]", "", line) for line in lines]


def running() -> list[str]:
    """List all running programs, without those that have ended and wait to be reaped."""
    found = [line.split(maxsplit=1) for line in told("ps", "-eo", "state=,args=")]
    return [program for state, program in found if state != "Z"]


def is_of_a_node(command: str) -> bool:
    names = ("kubelet", "containerd", "kube-", "etcd", "coredns", "sandbox/node/first.py")
    program, *arguments = command.split()
    return any(name in word for name in names for word in (program, *arguments[-1:]))


def cgroups() -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob(f"**/{CGROUP}"))


def test_nothing_is_left_of_a_node_that_was_killed_or_ended(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = seen()
    for number in (signal.SIGKILL, signal.SIGTERM):
        with subprocess.Popen(UP, cwd=ROOT, stdout=subprocess.PIPE, text=True) as up:
            assert up.stdout is not None
            told_ready = up.stdout.readline()
            assert told_ready, capfd.readouterr().err
            kubeconfig = Path(json.loads(told_ready)["kubeconfig"])
            assert kubeconfig.exists()
            assert seen() != before
            up.send_signal(number)
        after = wait_for(seen, lambda now: now == before)
        assert after == before
        assert not wait_for(kubeconfig.exists, lambda is_there: not is_there)
    assert not cgroups()
