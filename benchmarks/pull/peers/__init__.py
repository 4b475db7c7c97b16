"""What the client is compared with."""
