"""What several commands are told in the same way, as kubectl is told it."""

import argparse
import re
import textwrap

from evenkeel import times

WAIT_SECONDS = 120.0
OUTPUTS = ("table", "json", "yaml")
WIDTH = 80
LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LONGEST_LABEL, LONGEST_NAME = 63, 253
"""As Kubernetes has it: a DNS label, and such labels with dots between."""


def explained(parser: argparse.ArgumentParser, text: str, examples: str) -> None:
    """Say what a command does, and show it; `%(prog)s` in examples is how it is called."""
    parser.description = textwrap.fill(text, WIDTH)
    parser.epilog = f"examples:\n{examples}"


def of_cluster(parser: argparse.ArgumentParser, *, everywhere: bool = False) -> None:
    """Let it be said which cluster, and where in it."""
    group = parser.add_argument_group("which cluster, as for kubectl")
    group.add_argument(
        "-n", "--namespace", type=namespace, metavar="NAME", help="default: the context's"
    )
    if everywhere:
        group.add_argument("-A", "--all-namespaces", action="store_true", help="look everywhere")
    group.add_argument("--context", metavar="NAME", help="of the kubeconfig; default: its current")
    group.add_argument("--kubeconfig", metavar="FILE", help="default: KUBECONFIG, ~/.kube/config")


def of_output(parser: argparse.ArgumentParser) -> None:
    """Let it be said for whom the answer is."""
    parser.add_argument(
        "-o", "--output", choices=OUTPUTS, default=OUTPUTS[0],
        help="for people, or for programs; table",
    )  # fmt: skip


def of_waiting(parser: argparse.ArgumentParser) -> None:
    """Let it be said that what follows is waited for."""
    parser.add_argument("--wait", action="store_true", help="until it is done")
    of_timeout(parser, WAIT_SECONDS, "of --wait")


def of_timeout(parser: argparse.ArgumentParser, seconds: float, what: str) -> None:
    """Let it be said how long to wait at most."""
    parser.add_argument(
        "--timeout", type=_duration, default=seconds, metavar="DURATION",
        help=f"{what}; {seconds:g}s",
    )  # fmt: skip


def again(options: argparse.Namespace, words: str) -> str:
    """Say how another command is called for the same cluster and namespace."""
    names = (("-n", "namespace"), ("--context", "context"), ("--kubeconfig", "kubeconfig"))
    given = [f" {flag} {value}" for flag, name in names if (value := getattr(options, name))]
    return f"{options.name} {words}{''.join(given)}"


def name(text: str) -> str:
    """Take what may be the name of an object, and nothing that leads elsewhere in the API."""
    if len(text) > LONGEST_NAME or not re.fullmatch(rf"{LABEL}(\.{LABEL})*", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name of an object: it has small letters, digits, - and . alone, "
            f"begins and ends with a letter or digit, and has at most {LONGEST_NAME} of them"
        )
    return text


def namespace(text: str) -> str:
    """Take what may be the name of a namespace."""
    if len(text) > LONGEST_LABEL or not re.fullmatch(LABEL, text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name of a namespace: it has small letters, digits and - alone, "
            f"begins and ends with a letter or digit, and has at most {LONGEST_LABEL} of them"
        )
    return text


def _duration(text: str) -> float:
    if not re.fullmatch("([0-9]+(ms|s|m|h))+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 90s or 2m")
    return times.seconds(text)
