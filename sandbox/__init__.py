"""Starts real servers, such as RocketMQ and Kubernetes, on this machine, for tests."""
