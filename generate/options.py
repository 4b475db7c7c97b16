"""Generates the page about `evenkeel`'s commands and their options from the parser."""

import argparse
from collections.abc import Iterator

from evenkeel_cli import grammar

HEAD = """\
# Commands and options

`make generate` writes this page from the parser. `kubectl evenkeel` has the same commands.
[Commands](../commands.md) explains what they are for.

"""
NAME = "evenkeel"


def make_page() -> str:
    """Return the page as Markdown."""
    return HEAD + "\n".join(_command(name) for name in grammar.COMMANDS)


def _command(name: str) -> str:
    """Format a command like its help."""
    whole = grammar.make_parser(NAME, [name])
    (commands,) = (each for each in whole._actions if isinstance(each, argparse._SubParsersAction))
    parser: argparse.ArgumentParser = commands.choices[name]
    parts = [f"## {name}\n\n{' '.join((parser.description or '').split())}\n"]
    if lines := list(_parse_options(parser)):
        parts.append("\n".join(["| | |", "|---|---|", *lines]) + "\n")
    if parser.epilog:
        shown = parser.epilog.removeprefix("examples:\n").replace("%(prog)s", parser.prog)
        parts.append(f"```sh\n{_dedent(shown)}\n```\n")
    return "\n".join(parts)


def _parse_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = _format_value(action)
        names = [f"{name} {value}".strip() for name in action.option_strings] or [value]
        text = (action.help or "").replace("%(default)s", str(action.default))
        shown = ", ".join(f"`{name}`" for name in names)
        yield f"| {shown} | {text.replace('|', chr(92) + '|')} |"


def _format_value(action: argparse.Action) -> str:
    """Format the value of an option or argument."""
    if action.nargs == 0:
        return ""
    choices = "|".join(map(str, action.choices)) if action.choices else ""
    name = action.metavar or choices or (action.dest if not action.option_strings else "")
    many = " ..." if action.nargs in ("+", "*") else ""
    return f"{name}{many}".replace("|", "\\|")


def _dedent(text: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in text.rstrip().splitlines())
