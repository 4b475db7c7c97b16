"""
Where the rows of a flow go: `choosing` makes the sinks of a job.

A task writes the rows of a commit first, and then asks the driver to commit:

| sink | when its rows are seen | each row is there |
|---|---|---|
| `files` | the driver moves their folder, after its journal has the commit | exactly once |
| `topics` | the task has sent them | at least once |
| `functions` | the user's function has returned | at least once; exactly once with positions |
| `postgres`, `tables` | one transaction has them and the positions of their queues | exactly once |

A sink with positions (`follower.positions`) may be ahead of the journal: then a task has died after
its transaction, and before its commit. So a task asks such a sink where a queue begins, and commits
what is there already. It does no harm if a task that was given up writes late: the position has
moved on, or the next task finds its own position moved, drops its rows, and begins there.
"""
