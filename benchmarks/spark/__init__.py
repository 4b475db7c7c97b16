"""Measures the data source and the pinned job in Spark: `python -m benchmarks.spark`."""
