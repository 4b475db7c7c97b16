"""Flow: tasks that never end. Each task reads the queues of its slot. Only the driver commits."""
