"""The commands for people: one module per command, `grammar` parses them and `frame` runs them."""
