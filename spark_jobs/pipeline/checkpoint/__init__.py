"""What a job has committed, at its checkpoint's location: the same for both engines."""
