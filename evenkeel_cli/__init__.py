"""The commands. `grammar` parses the command line, `frame` runs a command's module."""
