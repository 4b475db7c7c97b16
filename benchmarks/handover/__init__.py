"""How queues are handed over, beside RocketMQ's own consumers: `python -m benchmarks.handover`."""
