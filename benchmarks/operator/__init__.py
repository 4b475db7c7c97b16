"""Measures how fast the operator is: `python -m benchmarks.operator`."""
