"""Runs a command: prints each error as one sentence and returns the exit code."""

import sys
from collections.abc import Sequence

from evenkeel.errors import EvenkeelError
from evenkeel_cli import grammar, saying
from evenkeel_cli.codes import FAILED, INTERRUPTED

OURS = ("contract", "coordinator", "evenkeel", "evenkeel_cli", "lb_core", "mq_client", "spark_jobs")
"""Evenkeel's packages. If one cannot be imported, the installation is broken."""
ASKED_BY_SHELLS = "__complete"
EXTRAS = {"operator": "operator", "run": "operator"}
"""The extras that these commands need. All other commands need `cli`. Jobs need `spark`, too."""


def main(arguments: Sequence[str] | None = None, name: str = "evenkeel") -> int:
    """Run the command line. `name` is the name of the called program."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words[:1] == [ASKED_BY_SHELLS]:
            from evenkeel_cli import completion  # imported here, because it loads much

            return completion.offer(name, words[1:])
        words = grammar.move_command_first(words)
        options = grammar.make_parser(name, words).parse_args(words)
        code: int = options.command(options)
        return code
    except EvenkeelError as error:
        saying.print_error(f"{name}: {error}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe
        saying.discard_output()
        return FAILED
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in OURS:
            raise
        command = words[0] if words and words[0] in grammar.COMMANDS else ""
        extra = EXTRAS.get(command, "cli")
        saying.print_error(
            f"{name} {command}".rstrip()
            + f" needs {error.name}: in Evenkeel's checkout, pip install '.[{extra}]'"
        )
        return FAILED
