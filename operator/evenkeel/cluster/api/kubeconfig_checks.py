"""Checks the address and the token of a kubeconfig. Pure."""

import re
from urllib.parse import urlsplit

import yaml

TOKEN = re.compile("[!-~]+")
"""
The characters that a header may contain. With other characters, the request would fail, and its
error would show the token.
"""


def is_address(server: str) -> bool:
    """Whether this is an HTTP address."""
    try:
        found = urlsplit(server)
        return found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:  # for example, the port is not a number
        return False


def describe_yaml_error(error: yaml.YAMLError) -> str:
    """Describe a YAML error in one line. The error's own text is left out: it quotes secrets."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem}, in line {error.problem_mark.line + 1}"
    return "it contains characters that YAML does not allow"


def is_token(text: str) -> bool:
    """Whether a token has only valid characters."""
    return TOKEN.fullmatch(text) is not None
