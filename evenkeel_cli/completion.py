"""
`evenkeel completion`: prints a shell script that completes commands, options and names.

The script calls `evenkeel __complete WORD...` for the candidates, which come from the parser and
the cluster. kubectl calls its plugins in the same way. The answer has kubectl's format: one
candidate per line, with a tab before its description, and a last line `:4`, or `:0` if a file name
may follow.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evenkeel_cli import candidates, grammar, saying, shells
from evenkeel_cli import options as told
from evenkeel_cli.codes import DONE

TEXT = (
    "Prints the completion script of a shell. It completes commands, options, and the names of "
    "groups, pods, namespaces and contexts. kubectl's own completion completes kubectl evenkeel if "
    "kubectl_complete-evenkeel is on PATH."
)
EXAMPLES = """\
  source <(%(prog)s bash)      # now; or in ~/.bashrc
  source <(%(prog)s zsh)       # now; or in ~/.zshrc, after compinit
  %(prog)s fish | source       # now; or in ~/.config/fish/config.fish
"""
FILES, NO_FILES = ":0", ":4"
Candidate = tuple[str, str]
"""A word and its description."""


def fill(parser: argparse.ArgumentParser, _: str) -> None:
    """Define the command's arguments."""
    told.describe(parser, TEXT, EXAMPLES)
    parser.add_argument("shell", choices=shells.SCRIPTS)
    parser.set_defaults(command=_print)


def _print(options: argparse.Namespace) -> int:
    saying.print_line(shells.SCRIPTS[options.shell].strip("\n"))
    return DONE


def offer(name: str, words: Sequence[str]) -> int:
    """Print the candidates for the last word, which may be empty."""
    *before, last = words or [""]
    before = grammar.move_command_first(before)
    parser = grammar.make_parser(name, before)
    lines: Iterable[str] = [NO_FILES]
    if parser.called is not None:
        lines = _complete_command(parser.called, before[1:], last)
    elif before and before[-1] in grammar.BEFORE:
        lines = _complete_value(grammar.BEFORE[before[-1]], {}, last)
    elif not before or before[0].startswith("-"):
        commands = [(each, text) for each, (_, text) in grammar.COMMANDS.items()]
        lines = _write_candidates([*_list_options(parser, last), *commands], last)
    for line in lines:
        saying.print_line(line)
    return DONE


def _complete_command(
    parser: argparse.ArgumentParser, before: Sequence[str], last: str
) -> Iterable[str]:
    given, waiting, positionals = _parse_words(parser, before)
    if waiting is None and last.startswith("-"):
        return _write_candidates(_list_options(parser, last), last)
    if waiting is None:
        waiting = next(iter(positionals), None)
    if waiting is None:
        return [NO_FILES]
    if waiting.choices is not None:
        return _write_candidates([(str(each), "") for each in waiting.choices], last)
    return _complete_value(waiting.dest, given, last, before)


def _complete_value(
    what: str, given: Mapping[str, str], last: str, but: Sequence[str] = ()
) -> Iterable[str]:
    if what in ("file", "kubeconfig", "state"):
        return [FILES]
    return _write_candidates(
        [(each, "") for each in candidates.find(what, given) if each not in but], last
    )


def _write_candidates(found: Iterable[Candidate], last: str) -> Iterator[str]:
    for word, text in found:
        if word.startswith(last):
            yield f"{word}\t{text}" if text else word
    yield NO_FILES


def _list_options(parser: argparse.ArgumentParser, last: str) -> Iterator[Candidate]:
    if last.startswith("-"):
        for action in parser._actions:
            for option in action.option_strings:
                yield option, (action.help or "") % {"prog": parser.prog}


def _parse_words(
    parser: argparse.ArgumentParser, before: Sequence[str]
) -> tuple[dict[str, str], argparse.Action | None, list[argparse.Action]]:
    """Return the given values, the option that needs a value next, and missing arguments."""
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
