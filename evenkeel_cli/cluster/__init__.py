"""How commands reach a cluster, and read what it has of ours."""
