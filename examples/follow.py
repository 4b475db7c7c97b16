"""
Follow an assignment in your own program: read the queues that a group assigns to one consumer.

    kubectl get mqcg billing -o json | python examples/follow.py NAME_SERVER CONSUMER

This example reads each queue from the group's committed offset to its end, commits, and exits. A
real program would keep reading, and would fetch the status again when it changes.
"""

import json
import sys

from lb_core.assignment import parse_ids
from mq_client.blocking import Client
from mq_client.pulling import Position
from mq_client.values import MessageQueue

name_server, consumer = sys.argv[1:]
document = json.load(sys.stdin)
group = document["spec"].get("group") or document["metadata"]["name"]
queues = [
    MessageQueue(queue.topic, queue.broker, queue.id)
    for each in document["status"]["assignments"]
    if each["consumer"] == consumer
    for run in each.get("queues", [])
    for ids in parse_ids(run["topic"], run["broker"], run["ids"])
    for queue in ids
]
count = 0
with Client(name_server) as client:
    positions = [
        Position(queue, client.find_committed(group, queue) or 0, client.find_max_offset(queue))
        for queue in queues
    ]
    for batch in client.read(group, positions):
        for message in batch.to_messages():
            count += 1
            print(f"{message.broker} {message.queue_id}: {message.body.decode()}")
        client.commit(group, {batch.queue: batch.stop})
print(f"{consumer} has read {count} messages from {len(queues)} queues")
