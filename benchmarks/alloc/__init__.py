"""Measures the allocation engine and its peers: `python -m benchmarks.alloc`."""
