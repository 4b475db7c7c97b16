"""Decides when the driver of a group's job runs, and computes the job's slots."""
