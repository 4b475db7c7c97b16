"""The operator in Kubernetes: objects come from the API server, and jobs run as pods."""
