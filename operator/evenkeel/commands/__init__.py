"""The command line: a module for each command, and `frame`, which all of them run in."""
