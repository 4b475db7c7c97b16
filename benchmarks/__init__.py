"""Benchmarks: each runs our code and its best peers side by side."""
