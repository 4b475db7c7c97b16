#!/bin/sh
# Spark calls this script before Kubernetes stops an executor. The script asks the executor to take no
# more tasks, and waits until the executor has ended. The setting spark.kubernetes.decommission.script
# has the path of this script.
for place in /proc/[0-9]*; do
    # The brackets keep grep from finding itself.
    if grep -qsa 'org[.]apache[.]spark[.].*ExecutorBackend' "$place/cmdline"; then
        pid=${place#/proc/}
        kill -PWR "$pid" && tail --pid="$pid" --follow /dev/null
    fi
done
