"""`python -m mq_client`."""

import sys


def main() -> int:
    """Run one command."""
    try:
        from mq_client import command_line

        return command_line.main()
    except ModuleNotFoundError as error:
        print(
            f"mq_client needs {error.name}: in Evenkeel's checkout, pip install '.[mq]'",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
