"""What Evenkeel does, seen: real RocketMQ, real Spark, executors that come, go and die."""
