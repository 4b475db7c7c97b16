"""Observes Topics and decides their next status."""
