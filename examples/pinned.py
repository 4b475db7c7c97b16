"""
Run a pinned job on two executors: `python examples/pinned.py NAME_SERVER FOLDER`.

This program plans the assignment with the allocation engine and writes it to a file, which the job
follows. The job reads all existing messages, writes them to FOLDER/rows, and exits.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from lb_core import Member, QueueRange, plan
from mq_client.blocking import Client

name_server, folder = sys.argv[1], Path(sys.argv[2])
with Client(name_server) as client:
    queues = client.find_route("orders").readable
ranges = [QueueRange(queue.topic, queue.broker, queue.id, queue.id + 1) for queue in queues]
planned = plan.plan(None, ranges, [Member("billing-0"), Member("billing-1")])
assignments = [
    {
        "consumer": slot,
        "queues": [
            {"topic": topic, "broker": broker, "ids": ids}
            for (topic, broker), ids in planned.assignment.list_ids(slot).items()
        ],
    }
    for slot in planned.assignment
]
(folder / "assignment.json").write_text(json.dumps({"epoch": 1, "assignments": assignments}))
job = {
    "name": "billing",
    "source": {
        "nameServers": name_server,
        "topics": "orders",
        "group": "billing",
        "startFrom": "earliest",
    },
    "assignments": str(folder / "assignment.json"),
    "report": str(folder / "report.json"),
    "checkpoint": str(folder / "checkpoint"),
    "transform": {"sql": "SELECT queue_id, queue_offset, string(body) AS body FROM messages"},
    "sink": {"format": "json", "path": str(folder / "rows")},
    "mode": "Scheduled",
    "spark": {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.memory": "640m",
    },
}
(folder / "job.json").write_text(json.dumps(job))
environment = {**os.environ, "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
command = [sys.executable, "-m", "spark_jobs.pipeline", str(folder / "job.json")]
subprocess.run(command, env=environment, check=True)
report = json.loads((folder / "report.json").read_text())
print("epoch", report["adoptedEpoch"], "rows by slot", report["rows"])
for part in (folder / "rows").rglob("*.json"):
    print(part.read_text(), end="")
