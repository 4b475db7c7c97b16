"""The demo: real RocketMQ, real Spark, executors that join, leave and die."""
