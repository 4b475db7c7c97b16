"""The operator and its command line; the only package that knows Kubernetes."""

__version__ = "0.1.0"
