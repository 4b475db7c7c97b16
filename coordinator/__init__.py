"""Decides which member of a group may now read which queue. No two members read the same queue."""
