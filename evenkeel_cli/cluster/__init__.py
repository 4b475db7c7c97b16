"""Reaches a cluster and reads its Topics and ConsumerGroups."""
