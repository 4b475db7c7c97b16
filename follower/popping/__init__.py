"""Members that pop: each message is taken, handled and acknowledged by itself."""
