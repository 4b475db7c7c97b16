"""What ours is measured against in Spark."""
