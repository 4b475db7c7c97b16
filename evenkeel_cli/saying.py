"""Prints the answer of a command as text for people, or as JSON or YAML for programs."""

import os
import sys

from evenkeel.errors import EvenkeelError


def print_answer(output: str, facts: object, text: str) -> None:
    """Print the answer in the chosen format."""
    if output == "json":
        import json

        print_line(json.dumps(facts, indent=2))
    elif output == "yaml":
        import yaml

        print_line(yaml.safe_dump(facts, sort_keys=False).rstrip("\n"))
    else:
        print_line(_escape_controls(text))


def print_line(text: str) -> None:
    """Print a line and flush it."""
    try:
        print(text, flush=True)  # noqa: T201 it is a command line
    except BrokenPipeError:
        raise
    except OSError as error:  # for example, the disk is full
        discard_output()
        raise EvenkeelError(f"the answer cannot be written: {error.strerror}") from error


def discard_output() -> None:
    """Discard buffered output, so that Python does not fail again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_error(text: str) -> None:
    """Print an error to stderr."""
    print(_escape_controls(text), file=sys.stderr, flush=True)  # noqa: T201 it is a command line


def _escape_controls(text: str) -> str:
    """Replace characters that a terminal could interpret as commands."""
    return "".join(each if each.isprintable() or each == "\n" else "·" for each in text)
