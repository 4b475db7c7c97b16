"""Measures the client and its peers: `python -m benchmarks.pull`."""
