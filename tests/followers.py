"""Followers in processes of their own, which a test starts, freezes and kills."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests import coordinating
from tests.coordinating import Coordinator

ROOT = Path(__file__).parents[1]


@dataclass
class Followers:
    """Members of the group of a coordinator. The handler is a module in the folder."""

    coordinator: Coordinator
    folder: Path
    handler: str
    """As the command line takes it: `module:function`."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "token").write_text(coordinating.TOKEN)

    def start(self, name: str, *more: str, **env: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "follower", self.handler,
            "--coordinator", self.coordinator.url, "--group", coordinating.GROUP,
            "--member", name, "--token-file", str(self.folder / "token"), *more,
        ]  # fmt: skip
        path = os.pathsep.join(map(str, (self.folder, ROOT)))
        env = {**os.environ, "NAME": name, "PYTHONPATH": path, **env}
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(command, env=env, stderr=log)
        return self.running[name]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def logs(self) -> str:
        return "\n".join(self.log(name).read_text() for name in self.running)

    def kill(self) -> None:
        for each in self.running.values():
            each.kill()
            each.wait()
