"""Measures how queues are handed over: `python -m benchmarks.handover`."""
