"""Command-line options for access to a cluster: credentials and TLS."""

import argparse
import os
import ssl

from mq_client import errors
from mq_client.acl import Credentials


def add_options(parser: argparse._ActionsContainer) -> None:
    """Add the options to a parser."""
    add = parser.add_argument
    add("--access-key", metavar="KEY", help="the secret key comes from ROCKETMQ_SECRET_KEY")
    add("--tls", action="store_true", help="use TLS")
    add("--tls-ca", metavar="FILE", help="use TLS; trust the certificates in this file")


def read_credentials(options: argparse.Namespace) -> Credentials | None:
    """Read the secret from the environment, because all users can see command lines."""
    if not options.access_key:
        return None
    return Credentials(options.access_key, os.environ.get("ROCKETMQ_SECRET_KEY", ""))


def make_tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    """Make the TLS context for connections. Return None if the options do not ask for TLS."""
    if not options.tls and not options.tls_ca:
        return None
    try:
        return ssl.create_default_context(cafile=options.tls_ca)
    except OSError as error:
        raise errors.UsageError(f"--tls-ca {options.tls_ca}: {error}") from error
