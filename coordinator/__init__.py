"""Decides which member of a group may read which queue now. No two members read the same queue."""
