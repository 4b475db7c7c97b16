"""The allocation engine beside its peers: `python -m benchmarks.alloc`."""
