"""The command `send`: one message, or each line of the standard input."""

import argparse
import os
import sys

from mq_client import errors, tables
from mq_client.blocking import Client
from mq_client.choosers import Chooser, RoundRobin, To
from mq_client.messages import Message
from mq_client.tables import Growing, Row
from mq_client.tools import printing
from mq_client.values import MessageQueue

COLUMNS = ("broker", "queue", "offset", "msg_id")


def send(client: Client, options: argparse.Namespace) -> None:
    """Send one message, or each line of the standard input that is not blank."""
    chooser = _make_chooser(options)
    if options.body is not None:
        row = _send(client, options, chooser, os.fsencode(options.body))
        printing.print_rows(options, COLUMNS, [row])
        return
    sent, table = 0, Growing(COLUMNS)
    for line in sys.stdin.buffer:
        if line.strip():
            try:
                row = _send(client, options, chooser, line.rstrip(b"\n"))
            except errors.MqError as error:
                error.preface(f"{sent} lines were sent, and the next line failed")
                raise
            sent += 1
            is_json = printing.is_json(options)
            print(tables.to_json_line(row) if is_json else table.add(row), flush=True)


def _make_chooser(options: argparse.Namespace) -> Chooser:
    if options.queue is None:
        return RoundRobin()
    broker, _, text = options.queue.rpartition(":")
    number = printing.parse_number(text)
    if not broker or number is None:
        raise errors.UsageError(f"--queue {options.queue!r} is not of the form broker:number")
    return To(MessageQueue(options.topic, broker, number))


def _send(client: Client, options: argparse.Namespace, chooser: Chooser, body: bytes) -> Row:
    message = Message(
        options.topic,
        body,
        tags=options.tags,
        keys=tuple(options.key),
        delay_level=options.delay_level,
    )
    sent = client.send(message, chooser)
    (msg_id,) = sent.message_ids
    queue = sent.queue
    return {"broker": queue.broker, "queue": queue.id, "offset": sent.offset, "msg_id": msg_id}
