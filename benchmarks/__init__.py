"""Benchmarks, which run our code and its best peers side by side."""
