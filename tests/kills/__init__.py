"""
Random histories of a flow whose processes are killed and frozen, on real brokers.

Driver and tasks are real processes with everything that a flow has, but for Spark: `playing` starts
and replaces them, as Spark would, and so a history takes seconds.
"""
