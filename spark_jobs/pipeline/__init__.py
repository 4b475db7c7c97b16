"""The pinned pipeline: a Spark job whose executors read the queues that they are assigned."""
