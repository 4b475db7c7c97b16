"""What all commands run in: errors as one sentence, exit codes."""

import sys
from collections.abc import Sequence

from evenkeel.commands import grammar, saying
from evenkeel.commands.codes import FAILED, INTERRUPTED
from evenkeel.errors import EvenkeelError

OURS = ("evenkeel", "lb_core", "mq_client", "spark_jobs")
"""If one of them is missing, an installation is broken, and no library."""
ASKED_BY_SHELLS = "__complete"


def main(arguments: Sequence[str] | None = None, name: str = "evenkeel") -> int:
    """Do what the command line says; `name` is how it is called."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if words[:1] == [ASKED_BY_SHELLS]:
            from evenkeel.commands import completion  # it asks clusters, which no other need load

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
        saying.complaint(
            f"{name}: the library {error.name} is missing: pip install '.[operator]' in a checkout "
            "of Evenkeel"
        )
        return FAILED
