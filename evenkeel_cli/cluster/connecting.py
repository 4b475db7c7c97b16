"""Connects to the cluster that a command line means."""

import argparse

from evenkeel_cli.cluster import access
from evenkeel_cli.cluster.client import Cluster


def connected(options: argparse.Namespace) -> Cluster:
    """Find the cluster, and where in it to look."""
    found = Cluster(access.found(options.kubeconfig, options.context))
    if options.namespace:
        found.namespace = options.namespace
    return found


def where(options: argparse.Namespace, cluster: Cluster) -> str | None:
    """Tell the namespace to look into; None: all."""
    return None if options.all_namespaces else cluster.namespace
