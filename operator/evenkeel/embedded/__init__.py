"""Without Kubernetes: objects from a file, and jobs as processes."""
