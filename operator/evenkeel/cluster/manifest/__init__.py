"""Pure functions that build the Kubernetes objects of a group's job. Start with `job_objects`."""
