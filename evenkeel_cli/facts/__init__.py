"""Pure parts of the commands: decisions and texts that need no cluster."""
