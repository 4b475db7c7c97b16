"""Connects to a cluster and reads its Topics and ConsumerGroups."""
