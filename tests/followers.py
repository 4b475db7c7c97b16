"""Followers in separate processes, which a test can start, freeze and kill."""

import abc
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests import coordinating
from tests.coordinating import Coordinator

ROOT = Path(__file__).parents[1]


@dataclass
class Members(abc.ABC):
    """Members of a coordinator's group, each in its own process."""

    coordinator: Coordinator
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.token_file.write_text(coordinating.TOKEN)

    @property
    def token_file(self) -> Path:
        return self.folder / "token"

    @abc.abstractmethod
    def make_command(self, name: str) -> list[str]:
        """Make the command that starts a member."""

    def start(self, name: str, *more: str, **env: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(map(str, (self.folder, ROOT)))
        env = {**os.environ, "NAME": name, "PYTHONPATH": path, **env}
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*self.make_command(name), *more], env=env, stderr=log
            )
        return self.running[name]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def logs(self) -> str:
        return "\n".join(self.log(name).read_text() for name in self.running)

    def kill(self) -> None:
        for each in self.running.values():
            each.kill()
            each.wait()


@dataclass
class Followers(Members):
    """Members in Python. The handler is a module in the folder."""

    handler: str
    """The handler as the command line takes it: `module:function`."""

    def make_command(self, name: str) -> list[str]:
        return [
            sys.executable, "-m", "follower", self.handler,
            "--coordinator", self.coordinator.url, "--group", coordinating.GROUP,
            "--member", name, "--token-file", str(self.token_file),
        ]  # fmt: skip
