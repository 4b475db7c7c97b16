"""The commands of `python -m mq_client`: each takes a client and its options."""
