"""The coordinator's edge: members of groups ask here which queues they may read."""
