"""Measures what operator, driver and executors use on a real node."""
