"""
`evenkeel completion`: lets a shell complete what is typed.

The shell's part is a few lines; what may come next is asked of `evenkeel __complete WORD...`, which
reads it off the parser and the cluster. kubectl asks in the same way, and both are answered as
kubectl wants it: a candidate a line, with a tab before what it means, and at the end `:4`, or `:0`
where names of files may follow.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence

from evenkeel.commands import candidates, frame, saying, shells
from evenkeel.commands import options as told
from evenkeel.commands.codes import DONE

TEXT = (
    "Prints what a shell needs to complete what is typed: commands, options, and the names of "
    "groups, pods, namespaces and contexts. For kubectl evenkeel kubectl's own completion does "
    "the same, where kubectl_complete-evenkeel is on PATH."
)
EXAMPLES = """\
  source <(%(prog)s bash)      # now; or in ~/.bashrc
  source <(%(prog)s zsh)       # now; or in ~/.zshrc, after compinit
  %(prog)s fish | source       # now; or in ~/.config/fish/config.fish
"""
FILES, NO_FILES = ":0", ":4"
Candidate = tuple[str, str]
"""A word, and what it means."""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Say how it is called."""
    told.explained(parser, TEXT, EXAMPLES)
    parser.add_argument("shell", choices=shells.SCRIPTS)
    parser.set_defaults(command=_print)


def _print(options: argparse.Namespace) -> int:
    saying.line(shells.SCRIPTS[options.shell].strip("\n"))
    return DONE


def offer(name: str, words: Sequence[str]) -> int:
    """Print what may stand in place of the last word, which has begun or is empty."""
    *before, last = words or [""]
    parser = frame.parser(name, before)
    if parser.called is not None:
        lines = _of_command(parser.called, before[1:], last)
    else:
        commands = [(each, text) for each, (_, text) in frame.COMMANDS.items() if not before]
        lines = _lines([*_options(parser, last), *commands], last)
    for line in lines:
        saying.line(line)
    return DONE


def _of_command(parser: argparse.ArgumentParser, before: Sequence[str], last: str) -> Iterable[str]:
    given, waiting, positionals = _understood(parser, before)
    if waiting is None and last.startswith("-"):
        return _lines(_options(parser, last), last)
    if waiting is None:
        waiting = next(iter(positionals), None)
    if waiting is None:
        return [NO_FILES]
    if waiting.metavar == "FILE" or waiting.metavar == "FOLDER":
        return [FILES]
    found = waiting.choices or candidates.found(waiting.dest, given)
    return _lines([(each, "") for each in found if each not in before], last)


def _lines(found: Iterable[Candidate], last: str) -> Iterator[str]:
    for word, text in found:
        if word.startswith(last):
            yield f"{word}\t{text}" if text else word
    yield NO_FILES


def _options(parser: argparse.ArgumentParser, last: str) -> Iterator[Candidate]:
    if last.startswith("-"):
        for action in parser._actions:
            for option in action.option_strings:
                yield option, (action.help or "") % {"prog": parser.prog}


def _understood(
    parser: argparse.ArgumentParser, before: Sequence[str]
) -> tuple[dict[str, str], argparse.Action | None, list[argparse.Action]]:
    """Read what stands there: values of options, the option that waits for one, what is left."""
    by_option = {option: action for action in parser._actions for option in action.option_strings}
    left = [action for action in parser._actions if not action.option_strings]
    given: dict[str, str] = {}
    waiting: argparse.Action | None = None
    for word in before:
        option, _, value = word.partition("=")
        if waiting is not None:
            given[waiting.dest], waiting = word, None
        elif option in by_option and value:
            given[by_option[option].dest] = value
        elif word in by_option:
            waiting = by_option[word] if by_option[word].nargs is None else None
        elif left and left[0].nargs in (None, "?"):
            left.pop(0)
    return given, waiting, left
