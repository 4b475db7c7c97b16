"""Measures how much a slow broker costs a producer, compared with RocketMQ's own."""
