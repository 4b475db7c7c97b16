"""`python -m follower`: see `follower.command_line`, which takes a moment to be imported."""

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
