"""The client beside its peers: `python -m benchmarks.pull`."""
