"""What a command says: to people a text, to programs facts."""

import os
import sys

from evenkeel.errors import EvenkeelError


def answer(output: str, facts: object, text: str) -> None:
    """Say it as it was asked for."""
    if output == "json":
        import json

        line(json.dumps(facts, indent=2))
    elif output == "yaml":
        import yaml

        line(yaml.safe_dump(facts, sort_keys=False).rstrip("\n"))
    else:
        line(_harmless(text))


def line(text: str) -> None:
    """Say it at once."""
    try:
        print(text, flush=True)  # noqa: T201 it is a command line
    except BrokenPipeError:
        raise
    except OSError as error:  # as of a disk that is full
        nothing_more()
        raise EvenkeelError(f"the answer cannot be written: {error.strerror}") from error


def nothing_more() -> None:
    """Keep Python from writing again at its end what could not be written, and complaining."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complaint(text: str) -> None:
    """Say what is wrong, apart from the answer."""
    print(_harmless(text), file=sys.stderr, flush=True)  # noqa: T201 it is a command line


def _harmless(text: str) -> str:
    """Leave nothing in it that a terminal takes for a command."""
    return "".join(each if each.isprintable() or each == "\n" else "·" for each in text)
