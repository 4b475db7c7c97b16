"""Everything that a client can do, as flows. Each function's first argument is the directory."""
