"""A worker's connections: Python workers serve many batches, so they keep them."""

import functools
import os

from mq_client.blocking import Client
from spark_jobs.options import ClusterOptions


def client(cluster: ClusterOptions) -> Client:
    """Find this process's client for a cluster, or make one."""
    return _client(cluster, os.getpid())


@functools.cache
def _client(cluster: ClusterOptions, _process: int) -> Client:
    """Make one for each process: a fork must not share its parent's sockets."""
    return cluster.connect()
