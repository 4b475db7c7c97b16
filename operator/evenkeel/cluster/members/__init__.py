"""Members that are pods: who they are, how they find the leader, and why they trust it."""
