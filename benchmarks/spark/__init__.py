"""The data source and the pinned job, measured in Spark: `python -m benchmarks.spark`."""
