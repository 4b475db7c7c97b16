"""
A filter: it reads one JSON request per line and immediately writes one line with the JSON answer.

    echo '{"strategy": "AVG", "queues": [["t", "b", 0]], "consumers": ["c1"]}' | python -m lb_core

The fields of requests and answers are described in docs/design/0002-the-filter.md.
"""

import sys
import time

from lb_core import answers

MISUSED = 64
"""Exit code for wrong usage. All commands use the same one."""


def main() -> None:
    """Answer every line of standard input, until it ends or the output is closed."""
    if sys.argv[1:]:
        _explain()
    try:
        for line in sys.stdin.buffer:
            sys.stdout.write(answers.answer(line, time.perf_counter) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()


def _explain() -> None:
    """Print the usage, and exit."""
    import argparse  # imported here, so that a filter that answers requests starts faster

    parser = argparse.ArgumentParser(
        prog="python -m lb_core",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_known_args()  # exits for --help
    parser.print_usage(sys.stderr)
    print(f"{parser.prog}: unknown argument {sys.argv[1]!r}", file=sys.stderr)
    sys.exit(MISUSED)


if __name__ == "__main__":
    main()
