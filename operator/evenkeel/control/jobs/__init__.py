"""When the driver of a group's job runs, and what its slots are."""
