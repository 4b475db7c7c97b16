"""
Starts Debian's Prometheus on loopback. It is gone with its data when the block ends.

    with prometheus.run([Target("operator", 8080)], rules) as watching:
        watching.ask("sum(up)")
"""

import contextlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox import debian, process, server

HOST = "127.0.0.1"
ANSWER_SECONDS = 10.0
EVERY = "1s"
"""How often Prometheus scrapes targets and evaluates rules."""


class QueryRefusedError(process.SandboxError):
    """Prometheus cannot parse or evaluate a query."""


@dataclass(frozen=True)
class Target:
    """A port on loopback to scrape, and the labels of its series."""

    job: str
    port: int
    labels: Mapping[str, str] = field(default_factory=dict)


class Prometheus(server.SandboxServer):
    """A Prometheus server."""

    def __init__(
        self, program: Path, place: process.Folder, targets: Sequence[Target], rules: Path | None
    ) -> None:
        """Claim a port; start nothing yet."""
        super().__init__("prometheus")
        self._program = program
        self._place = place
        self._config = {
            "global": {"scrape_interval": EVERY, "evaluation_interval": EVERY},
            "rule_files": [] if rules is None else [str(rules)],
            "scrape_configs": [
                {
                    "job_name": each.job,
                    "honor_labels": True,  # as the chart's monitors do
                    "static_configs": [
                        {"targets": [f"{HOST}:{each.port}"], "labels": dict(each.labels)}
                    ],
                }
                for each in targets
            ],
        }

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Evaluate a query now; return `metric` and `value` of each series."""
        found: list[dict[str, Any]] = self.get("query", query=query)["result"]
        return found

    def get(self, path: str, **query: str) -> Any:
        """Send a request to Prometheus' API."""
        url = f"http://{HOST}:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise QueryRefusedError(f"{query or path}: {json.load(error)['error']}") from error

    def _start_process(self) -> process.ChildProcess:
        config = self._place.path / "prometheus.json"  # JSON is also YAML
        config.write_text(json.dumps(self._config))
        command: list[str | Path] = [
            self._program,
            f"--config.file={config}",
            f"--web.listen-address={HOST}:{self.port}",
            f"--storage.tsdb.path={self._place.path / 'data'}",
        ]
        return process.ChildProcess(self.name, command, self._place, {})

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            url = f"http://{HOST}:{self.port}/-/ready"
            with urllib.request.urlopen(url, timeout=ANSWER_SECONDS):
                return True
        return False


@contextlib.contextmanager
def run(targets: Sequence[Target], rules: Path | None = None) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes these targets and evaluates these rules once a second."""
    program = debian.find_program("prometheus", "usr/bin/prometheus")
    with process.make_folder("evenkeel-prometheus-") as place:
        made = Prometheus(program, place, targets, rules)
        try:
            made.start()
            made.wait_until_ready()
            yield made
        finally:
            made.release()
