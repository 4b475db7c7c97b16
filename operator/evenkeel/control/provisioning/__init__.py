"""Creates topics at brokers, and changes their numbers of queues."""
