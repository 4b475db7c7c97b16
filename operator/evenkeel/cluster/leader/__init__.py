"""Decides which replica of the operator leads."""
