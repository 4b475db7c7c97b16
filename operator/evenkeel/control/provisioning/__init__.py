"""Makes and resizes topics at their brokers."""
