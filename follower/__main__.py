"""Runs `python -m follower`, and reports if the packages that it needs are not installed."""

import sys


def main() -> int:
    """Follow until a signal comes."""
    try:
        from follower import command_line
    except ModuleNotFoundError as error:
        print(
            f"follower needs {error.name}: in Evenkeel's checkout, pip install '.[follower]'",
            file=sys.stderr,
        )
        return 1
    return command_line.main()


if __name__ == "__main__":
    sys.exit(main())
