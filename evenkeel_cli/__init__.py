"""The command line: a module for each command, `grammar` of all, and `frame` that they run in."""
