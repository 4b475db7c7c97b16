"""The command line: a module for each command, `grammar` for all, and `frame`, which they run in."""
