"""Flow: tasks that never end. Each reads the queues of its slot, and the driver alone commits."""
