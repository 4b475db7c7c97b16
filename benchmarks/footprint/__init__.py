"""What operator, driver and executors cost on a real node."""
