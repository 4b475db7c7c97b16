"""Observes ConsumerGroups and decides their next status."""
