"""
The parser of all commands.

It loads only the module of the command that was called, so that every command starts fast.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from evenkeel import __version__
from evenkeel_cli.codes import MISUSED

COMMANDS = {
    "plan": ("plan", "show which queues would move, without moving them"),
    "explain": ("explain", "explain why queues have their owners"),
    "top": ("top", "watch consumers, their queues, their rates and their lag"),
    "drain": ("drain", "take all queues away from pods, so that they can be deleted"),
    "rebalance": ("asking", "plan a group immediately, even while it is paused"),
    "pause": ("asking", "pause the rebalancing of a group"),
    "resume": ("asking", "end a pause"),
    "restart": ("asking", "restart the job of a group"),
    "skip": ("asking", "let a job skip messages that are lost"),
    "check": ("check", "test the operator with a small group"),
    "run": ("run", "run the groups of a file on this machine, without Kubernetes"),
    "operator": ("operator", "run the operator, which reconciles the groups of a cluster"),
    "completion": ("completion", "print a completion script for a shell"),
}
"""The module and the summary of each command."""
BEFORE = {
    "-n": "namespace",
    "--namespace": "namespace",
    "--context": "context",
    "--kubeconfig": "kubeconfig",
}
"""Options with a value that may stand before the command, as with kubectl."""


class Parser(argparse.ArgumentParser):
    """Parses the command line. If it is invalid, the parser exits with MISUSED, not with 2."""

    called: argparse.ArgumentParser | None = None
    """The parser of the command that was called; None if there is none."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit."""
        self.print_usage(sys.stderr)
        self.exit(MISUSED, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of examples, and has a wide column for names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def move_command_first(words: Sequence[str]) -> list[str]:
    """Move the command to the front, before options that stand before it."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in BEFORE else 1
    return [*words[at : at + 1], *words[:at], *words[at + 1 :]]


def make_parser(name: str, words: Sequence[str]) -> Parser:
    """Make a parser with all commands, but with the arguments of only the called command."""
    found = Parser(
        prog=name,
        description="Shows and changes which consumer reads which queue.",
        epilog=f"{name} COMMAND --help explains a command and gives examples.",
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
