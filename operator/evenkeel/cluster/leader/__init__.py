"""Which replica of the operator leads."""
