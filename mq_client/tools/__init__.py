"""What the commands of `python -m mq_client` do, with a client and the options given."""
