"""The peers of the client."""
