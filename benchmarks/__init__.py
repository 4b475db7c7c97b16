"""Measures against the best of the field, peer and ours in the same run."""
