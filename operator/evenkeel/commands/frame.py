"""
What all commands run in: the parser, errors as one sentence, exit codes.

A command's module is loaded before the command line is read, so what it needs to run is imported
when it runs.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from evenkeel import __version__
from evenkeel.commands import operator, plan, run
from evenkeel.commands.codes import FAILED
from evenkeel.errors import EvenkeelError


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.command(options)
        return code
    except EvenkeelError as error:
        print(f"evenkeel: {error}", file=sys.stderr)  # noqa: T201 it is the command line
        return FAILED
    except BrokenPipeError:  # whoever reads has seen enough, and Python must not write again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def parser() -> argparse.ArgumentParser:
    """Know all commands."""
    found = argparse.ArgumentParser(prog="evenkeel", description="Who reads which queue, and why.")
    found.add_argument("--version", action="version", version=f"evenkeel {__version__}")
    commands = found.add_subparsers(required=True, metavar="COMMAND")
    for command in (plan, run, operator):
        command.add(commands)
    return found
