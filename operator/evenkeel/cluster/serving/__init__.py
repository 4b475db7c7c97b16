"""Serves metrics and probes by HTTP."""
