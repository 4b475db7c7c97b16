"""
Random histories of a job whose processes are killed and frozen, on real brokers.

`batch` plays a job with batches, with real Spark. `flow` plays a flow, without Spark: driver
and tasks are real processes with everything else that a flow has. It starts and replaces them, as
Spark would, so a history takes only seconds.
"""
