"""
Starts `evenkeel operator` in a separate process, which ends at the latest when the block ends.

    with operator.RunningOperator(cluster.admin.kubeconfig) as running:
        running.wait_until_ready()
        running.metric("leader")
"""

import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from sandbox import ports, process

ROOT = Path(__file__).parents[1]
READY_SECONDS = 300.0
STOP_SECONDS = 120.0
METRICS = "evenkeel_operator_"


def make_python_path(root: Path) -> dict[str, str]:
    """Return the environment in which Python finds the operator of a checkout."""
    return {"PYTHONPATH": f"{root / 'operator'}:{root}"}


def make_command(root: Path) -> list[str]:
    """Return the command `evenkeel` of a checkout; older checkouts have another module name."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["evenkeel"].partition(":")
    return [
        sys.executable,
        "-c",
        f"import sys; from {module} import {function} as run; sys.exit(run())",
    ]


class RunningOperator:
    """One operator process, which is the leader or waits to become it."""

    def __init__(self, kubeconfig: Path, *options: str, root: Path = ROOT) -> None:
        """Start nothing yet. `options` are added to the command line."""
        self._folder = process.Folder("evenkeel-operator-")
        self._claim = ports.claim()
        self._kubeconfig = kubeconfig
        self._options = options
        self._root = root
        """The checkout whose operator runs."""
        self._process: process.ChildProcess | None = None

    def __enter__(self) -> Self:
        """Start the operator."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the operator."""
        self._folder.close()
        self._claim.release()

    @property
    def port(self) -> int:
        """The operator's port, on 127.0.0.1."""
        return self._claim.port

    def start(self) -> None:
        """Start the operator, or restart it after it has ended."""
        command = [
            *make_command(self._root), "operator", "--port", str(self.port), *self._options,
        ]  # fmt: skip
        environment = {"KUBECONFIG": str(self._kubeconfig), **make_python_path(self._root)}
        self._process = process.ChildProcess("operator", command, self._folder, environment)

    @property
    def pid(self) -> int:
        """The operator's process id."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._running.is_running

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._running.exit_code

    @property
    def log(self) -> str:
        """The operator's log."""
        return self._running.log.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        """Wait until the operator has listed everything and is the leader."""
        self._running.wait_until(lambda: self.metric("leader") == 1.0, READY_SECONDS)

    def make_error(self, complaint: str) -> process.PartNotReadyError:
        """Make an error with this complaint and the end of the operator's log."""
        return process.PartNotReadyError(f"the operator: {complaint}", self._running.log)

    def kill(self) -> None:
        """Kill the operator, as kill -9 does."""
        self._running.kill()

    def stop(self) -> None:
        """Stop the operator, as the kubelet does."""
        self._running.stop(STOP_SECONDS)

    def get(self, path: str) -> tuple[int, str]:
        """Send an HTTP request; status 0 if there is no answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float | None:
        """Read one of the operator's metrics, by name without the common prefix."""
        shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
        wanted = METRICS + name + (f"{{{shown}}}" if shown else "")
        for line in self.get("/metrics")[1].splitlines():
            key, _, value = line.rpartition(" ")
            if key == wanted:
                return float(value)
        return None

    @property
    def _running(self) -> process.ChildProcess:
        assert self._process is not None
        return self._process
