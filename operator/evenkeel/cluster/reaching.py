"""What reaches an API server: addresses and tokens, as kubeconfigs give them. Pure."""

import re
from urllib.parse import urlsplit

import yaml

TOKEN = re.compile("[!-~]+")
"""What a header can carry, without blanks: an error about others would show the token."""


def is_address(server: str) -> bool:
    """Whether something may be there that speaks HTTP."""
    try:
        found = urlsplit(server)
        return found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:  # as of a port that is no number
        return False


def no_yaml(error: yaml.YAMLError) -> str:
    """Say where a kubeconfig is no YAML, in one line; the error's own text quotes secrets."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem}, in line {error.problem_mark.line + 1}"
    return "it holds characters that YAML does not allow"


def is_token(text: str) -> bool:
    """Whether a token may look so."""
    return TOKEN.fullmatch(text) is not None
