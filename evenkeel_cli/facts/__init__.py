"""What commands know and say: pure, so that it can be tried without a cluster."""
