"""What follows for a ConsumerGroup object."""
