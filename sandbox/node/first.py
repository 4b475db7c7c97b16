"""
Runs as the first process of a node. When it ends, all other processes of the node end too.

The node has its own namespaces. In these, this process hides some folders of the machine, because a
node always writes to these folders. After that, it only reaps orphaned processes of containers.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

READY = "the node's ground is there"
HIDDEN = ("/run", "/var/lib", "/var/log")
SETTINGS = {
    "net/ipv4/ip_forward": "1",
    # The rules of services must also apply to packets between two pods of a bridge.
    "net/bridge/bridge-nf-call-iptables": "1",
}


def main() -> None:
    """Prepare the namespaces, and run until killed."""
    _run("mount", "--make-rshared", "/")
    for folder in HIDDEN:
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "node", folder)
    _run("ip", "link", "set", "lo", "up")
    for name, value in SETTINGS.items():
        Path("/proc/sys", name).write_text(value)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    while True:
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        signal.pause()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
