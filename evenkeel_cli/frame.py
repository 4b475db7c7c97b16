"""What all commands run in: errors as one sentence, exit codes."""

import sys
from collections.abc import Sequence

from evenkeel.errors import EvenkeelError
from evenkeel_cli import grammar, saying
from evenkeel_cli.codes import FAILED, INTERRUPTED

OURS = ("contract", "evenkeel", "evenkeel_cli", "lb_core", "mq_client", "spark_jobs")
"""If one of them is missing, an installation is broken, and no library."""
ASKED_BY_SHELLS = "__complete"
EXTRAS = {"operator": "operator", "run": "operator,spark"}
"""The extras of the package with all that a command needs; `cli` is enough for the others."""


def main(arguments: Sequence[str] | None = None, name: str = "evenkeel") -> int:
    """Do what the command line says; `name` is how it is called."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words[:1] == [ASKED_BY_SHELLS]:
            from evenkeel_cli import completion  # it asks clusters, which no other need load

            return completion.offer(name, words[1:])
        words = grammar.command_first(words)
        options = grammar.parser(name, words).parse_args(words)
        code: int = options.command(options)
        return code
    except EvenkeelError as error:
        saying.complaint(f"{name}: {error}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads has seen enough
        saying.nothing_more()
        return FAILED
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in OURS:
            raise
        command = words[0] if words and words[0] in grammar.COMMANDS else ""
        extra = EXTRAS.get(command, "cli")
        saying.complaint(
            f"{name} {command}".rstrip() + f" needs {error.name}: pip install 'evenkeel[{extra}]'"
        )
        return FAILED
