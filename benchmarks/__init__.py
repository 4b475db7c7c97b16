"""Benchmarks, which measure our code and its best peers under the same conditions."""
