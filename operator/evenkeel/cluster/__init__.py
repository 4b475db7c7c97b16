"""In Kubernetes: objects from the API server, and jobs as pods."""
