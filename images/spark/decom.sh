#!/bin/sh
# Spark calls this before it lets Kubernetes stop an executor: ask it to take no more tasks, and wait
# until it has ended. It is where Spark looks for it (spark.kubernetes.decommission.script).
for place in /proc/[0-9]*; do
    # The brackets keep grep from finding itself.
    if grep -qsa 'org[.]apache[.]spark[.].*ExecutorBackend' "$place/cmdline"; then
        pid=${place#/proc/}
        kill -PWR "$pid" && tail --pid="$pid" --follow /dev/null
    fi
done
