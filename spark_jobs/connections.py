"""The connections of a process: Python workers serve many batches, so they keep them."""

import functools
import os

from mq_client.blocking import Client
from spark_jobs.options import ClusterOptions


def get_client(cluster: ClusterOptions) -> Client:
    """Return this process's client for a cluster, or make one."""
    return _make_client(cluster, os.getpid())


@functools.cache
def _make_client(cluster: ClusterOptions, _process: int) -> Client:
    """Make one for each process: a fork must not share its parent's sockets."""
    return cluster.connect()
