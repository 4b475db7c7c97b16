"""
`evenkeel completion`: lets a shell complete what is typed.

The shell's part is a few lines; what may come next is asked of `evenkeel __complete WORD...`, which
reads it off the parser and the cluster. kubectl asks in the same way, and both are answered as
kubectl wants it: a candidate a line, with a tab before what it means, and at the end `:4`, or `:0`
where names of files may follow.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evenkeel_cli import candidates, grammar, saying, shells
from evenkeel_cli import options as told
from evenkeel_cli.codes import DONE

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
    before = grammar.command_first(before)
    parser = grammar.parser(name, before)
    lines: Iterable[str] = [NO_FILES]
    if parser.called is not None:
        lines = _of_command(parser.called, before[1:], last)
    elif before and before[-1] in grammar.BEFORE:
        lines = _of_value(grammar.BEFORE[before[-1]], {}, last)
    elif not before or before[0].startswith("-"):
        commands = [(each, text) for each, (_, text) in grammar.COMMANDS.items()]
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
    if waiting.choices is not None:
        return _lines([(str(each), "") for each in waiting.choices], last)
    return _of_value(waiting.dest, given, last, before)


def _of_value(
    what: str, given: Mapping[str, str], last: str, but: Sequence[str] = ()
) -> Iterable[str]:
    if what in ("file", "kubeconfig", "state"):
        return [FILES]
    return _lines([(each, "") for each in candidates.found(what, given) if each not in but], last)


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
