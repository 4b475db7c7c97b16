"""The operator without Kubernetes: objects come from a file, and jobs run as processes."""
