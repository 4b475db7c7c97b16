"""The operator. It runs in a cluster, or without Kubernetes on one machine."""

__version__ = "0.1.0"
