"""The two kinds, `Topic` and `ConsumerGroup`, as types."""
