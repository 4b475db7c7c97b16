"""Serves members of groups, which ask the coordinator which queues they may read."""
