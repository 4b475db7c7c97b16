"""How commands end; docs/commands.md lists the codes."""

DONE = NOTHING_MOVES = 0
FAILED = 1
SOMETHING_MOVES = 2
"""Of `plan`: what has an owner would get another."""
MISUSED = 64
"""The command line says nothing that can be done. As BSD has it, for 2 says something else here."""
INTERRUPTED = 130
"""By Ctrl-C, as shells have it."""
