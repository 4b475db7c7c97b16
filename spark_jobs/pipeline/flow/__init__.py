"""Flow: long-running tasks. Each task reads the queues of its slot. Only the driver commits."""
