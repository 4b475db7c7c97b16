"""What a command says: to people a text, to programs facts."""

import sys


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
    print(text, flush=True)  # noqa: T201 it is a command line


def complaint(text: str) -> None:
    """Say what is wrong, apart from the answer."""
    print(_harmless(text), file=sys.stderr, flush=True)  # noqa: T201 it is a command line


def _harmless(text: str) -> str:
    """Leave nothing in it that a terminal takes for a command."""
    return "".join(each if each.isprintable() or each == "\n" else "·" for each in text)
