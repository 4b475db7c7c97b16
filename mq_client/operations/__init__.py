"""All operations of a client, as flows. The first argument of each is the directory."""
