"""Which member of a group may read which queue now, so that no two members read one queue."""
