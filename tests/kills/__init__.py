"""
Random histories of a flow whose processes are killed and frozen, on real brokers.

Driver and tasks are real processes with everything that a flow has, except Spark. `playing` starts
and replaces them, as Spark would, so a history takes only seconds.
"""
