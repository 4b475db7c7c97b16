"""The commands. `grammar` parses the command line, and `frame` runs the module of a command."""
