"""The peers in Spark."""
