"""The benchmark of single messages: pops, compared with RocketMQ's own consumer in POP mode."""
