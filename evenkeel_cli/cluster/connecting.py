"""Connects to the cluster that the command line's options choose."""

import argparse

from evenkeel_cli.cluster import access
from evenkeel_cli.cluster.client import ClusterClient


def connect(options: argparse.Namespace) -> ClusterClient:
    """Connect to the cluster, with the chosen namespace as its default."""
    found = ClusterClient(access.find(options.kubeconfig, options.context))
    if options.namespace:
        found.namespace = options.namespace
    return found


def choose_namespace(options: argparse.Namespace, cluster: ClusterClient) -> str | None:
    """Return the chosen namespace; None means all."""
    return None if options.all_namespaces else cluster.namespace
