"""Keeps one client for each process, because a Python worker serves many batches."""

import functools
import os

from mq_client.blocking import Client
from spark_jobs.options import ClusterOptions


def get_client(cluster: ClusterOptions) -> Client:
    """Return this process's client for a cluster; make it at the first call."""
    return _make_client(cluster, os.getpid())


@functools.cache
def _make_client(cluster: ClusterOptions, _process: int) -> Client:
    """Make a client for one process: a forked process must not share its parent's sockets."""
    return cluster.connect()
