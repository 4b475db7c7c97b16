"""Starts, restarts and removes the drivers of jobs."""
