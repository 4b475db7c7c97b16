"""The Kubernetes objects of a group's job, as pure functions. `whole` puts them together."""
