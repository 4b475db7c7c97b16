"""Starts the real parts on this machine: for tests, benchmarks and the demo, in one way only."""
