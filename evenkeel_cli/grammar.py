"""
The parser of all commands.

Only the module of the command that is called is loaded, so that none waits for what another needs.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from evenkeel import __version__
from evenkeel_cli.codes import MISUSED

COMMANDS = {
    "plan": ("plan", "show what would move, before it does"),
    "explain": ("explain", "say why queues are where they are"),
    "top": ("top", "watch who reads what, how fast, and how far behind"),
    "drain": ("drain", "empty pods that read queues, so that they can go"),
    "rebalance": ("asking", "plan a group at once, also while it is paused"),
    "pause": ("asking", "let queues stay where they are"),
    "resume": ("asking", "end a pause"),
    "restart": ("asking", "start a group's job anew"),
    "skip": ("asking", "let a job pass over messages that are gone for good"),
    "check": ("check", "try the operator out: a small group gets an assignment"),
    "run": ("run", "run the groups of a file here, without Kubernetes"),
    "operator": ("operator", "keep the groups of a cluster"),
    "completion": ("completion", "let a shell complete what is typed"),
}
"""Module and summary of each."""
BEFORE = {
    "-n": "namespace",
    "--namespace": "namespace",
    "--context": "context",
    "--kubeconfig": "kubeconfig",
}
"""Options with a value that people also write before the command, as they do with kubectl."""


class Parser(argparse.ArgumentParser):
    """Ends with a code of its own for what it does not understand."""

    called: argparse.ArgumentParser | None = None
    """The command that is called, if it is one."""

    def error(self, message: str) -> NoReturn:
        """Say so, and how it is called."""
        self.print_usage(sys.stderr)
        self.exit(MISUSED, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Leaves examples as they are, and has room for long names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def command_first(words: Sequence[str]) -> list[str]:
    """Put a command before the options that were written before it."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in BEFORE else 1
    return [*words[at : at + 1], *words[:at], *words[at + 1 :]]


def parser(name: str, words: Sequence[str]) -> Parser:
    """Know all commands by name, and all about the one that these words begin with."""
    found = Parser(
        prog=name,
        description="Who reads which queue, and why.",
        epilog=f"{name} COMMAND --help explains a command, with examples.",
        formatter_class=_Formatter,
    )
    found.add_argument("--version", action="version", version=f"evenkeel {__version__}")
    commands = found.add_subparsers(required=True, metavar="COMMAND")
    called = words[0] if words else None
    for command, (module, summary) in COMMANDS.items():
        made = commands.add_parser(command, help=summary, formatter_class=_Formatter)
        if command == called:
            importlib.import_module(f"evenkeel_cli.{module}").fill(made, command)
            made.set_defaults(name=name)
            found.called = made
    return found
