"""
Where the rows of a flow go: `choosing` makes the sinks of a job.

A task writes the rows of a commit first, and then asks the driver to commit:

| sink | its rows become visible when | each row is stored |
|---|---|---|
| `files` | the driver moves their folder, after its journal has the commit | exactly once |
| `topics` | the task has sent them | at least once |
| `functions` | the user's function has returned | at least once; exactly once with positions |
| `postgres`, `tables` | one transaction has them and the positions of their queues | exactly once |

A sink with positions (`follower.positions`) can be ahead of the journal, if a task has died between
its transaction and its commit. So a task asks such a sink where a queue begins, and commits what
the sink has already. A task that the driver has given up can still write late, but does no harm.
Either the position has moved on, and the late write fails. Or the late write moves the position.
Then the next task finds that the position has moved, drops its own rows, and begins at the moved
position.
"""
