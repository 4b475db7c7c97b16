"""What follows for a Topic object."""
