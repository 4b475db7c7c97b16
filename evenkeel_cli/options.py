"""Arguments that several commands share. They have kubectl's names."""

import argparse
import re
import textwrap

from evenkeel import times

WAIT_SECONDS = 120.0
OUTPUTS = ("table", "json", "yaml")
WIDTH = 80
LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LONGEST_LABEL, LONGEST_NAME = 63, 253
"""Kubernetes' limits for a name that is one DNS label, and for names with dots."""


def describe(parser: argparse.ArgumentParser, text: str, examples: str) -> None:
    """Set the description and the examples. In examples, `%(prog)s` is the command's name."""
    parser.description = textwrap.fill(text, WIDTH)
    parser.epilog = f"examples:\n{examples}"


def add_cluster_options(parser: argparse.ArgumentParser, *, everywhere: bool = False) -> None:
    """Add the options that choose a cluster and a namespace."""
    group = parser.add_argument_group("cluster, as for kubectl")
    group.add_argument(
        "-n",
        "--namespace",
        type=parse_namespace,
        metavar="NAME",
        help="namespace. Default: the context's",
    )
    if everywhere:
        group.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    group.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig. Default: the current one"
    )
    group.add_argument(
        "--kubeconfig",
        metavar="FILE",
        help="kubeconfig. Default: KUBECONFIG, otherwise ~/.kube/config",
    )


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses the format of the answer."""
    parser.add_argument(
        "-o", "--output", choices=OUTPUTS, default=OUTPUTS[0],
        help="output format. Default: table",
    )  # fmt: skip


def add_wait_options(parser: argparse.ArgumentParser) -> None:
    """Add `--wait` and `--timeout`."""
    parser.add_argument("--wait", action="store_true", help="wait until the request is done")
    add_timeout_option(parser, WAIT_SECONDS, "time limit for --wait")


def add_timeout_option(parser: argparse.ArgumentParser, seconds: float, what: str) -> None:
    """Add `--timeout`."""
    parser.add_argument(
        "--timeout", type=_parse_duration, default=seconds, metavar="DURATION",
        help=f"{what}. Default: {seconds:g}s",
    )  # fmt: skip


def write_command(options: argparse.Namespace, words: str) -> str:
    """Write the command line of another command for the same cluster and namespace."""
    names = (("-n", "namespace"), ("--context", "context"), ("--kubeconfig", "kubeconfig"))
    given = [f" {flag} {value}" for flag, name in names if (value := getattr(options, name))]
    return f"{options.name} {words}{''.join(given)}"


def parse_name(text: str) -> str:
    """Accept only a valid object name, because the name becomes a part of an API path."""
    if len(text) > LONGEST_NAME or not re.fullmatch(rf"{LABEL}(\.{LABEL})*", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid object name: it may have only lower-case letters, digits, - "
            f"and ., must begin and end with a letter or digit, and has at most {LONGEST_NAME} "
            "characters"
        )
    return text


def parse_namespace(text: str) -> str:
    """Accept only a valid namespace name."""
    if len(text) > LONGEST_LABEL or not re.fullmatch(LABEL, text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid namespace name: it may have only lower-case letters, digits "
            f"and -, must begin and end with a letter or digit, and has at most {LONGEST_LABEL} "
            "characters"
        )
    return text


def _parse_duration(text: str) -> float:
    if not re.fullmatch("([0-9]+(ms|s|m|h))+", text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a duration such as 90s or 2m")
    return times.parse_duration(text)
