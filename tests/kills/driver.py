"""Runs a driver until it is killed: `python -m tests.kills.driver NUMBER FOLDER SERVER TOPIC`."""

import logging
import secrets
import sys
import time
from pathlib import Path

from contract.following import GroupSource
from mq_client.errors import MqError
from mq_client.values import MessageQueue
from spark_jobs.pipeline.assignments import JobAssignment
from spark_jobs.pipeline.checkpoint.begins import QueueBegins
from spark_jobs.pipeline.flow.beginning import FlowBeginner, FlowBeginning
from spark_jobs.pipeline.flow.link import DriverPlace
from spark_jobs.pipeline.flow.serving import FlowServer
from tests.kills.ground import Ground, Listening, Plan

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.05


def main(number: int, ground: Ground) -> None:
    journal = ground.journal
    reading = ground.make_reading()
    begins = QueueBegins(reading)
    beginner = FlowBeginner(journal, begins, reading, ground.make_sinks, "", is_scheduled=False)
    beginning = _begin(beginner)
    query = beginning.state.query
    sinks = ground.make_sinks(query, journal.number)
    for each in sinks.folders:
        each.clean()
    secret = secrets.token_hex(16)
    source = GroupSource(ground.group, [ground.name_server])
    server = FlowServer(
        beginning, journal, sinks, source, begins.find_others, secret, lambda _: None
    )
    server.start("127.0.0.1", 0)
    place = DriverPlace("127.0.0.1", server.port, secret)
    ground.put(f"driver-{number}", Listening(place, query, journal.number))
    plan: Plan | None = None
    while True:
        if plan != (newest := ground.read_plan()):
            plan = newest
            server.publish(_make_assignment(ground, plan), plan.executors)
        server.check()
        time.sleep(LOOK_SECONDS)


def _begin(beginner: FlowBeginner) -> FlowBeginning:
    while True:
        try:
            return beginner.begin()
        except MqError as error:
            log.warning("the flow begins again: %s", error)
            time.sleep(LOOK_SECONDS)


def _make_assignment(ground: Ground, plan: Plan) -> JobAssignment:
    owners = {MessageQueue(ground.topic, broker, n): slot for broker, n, slot in plan.owners}
    return JobAssignment(plan.epoch, tuple(plan.executors), owners)


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s driver %(message)s")
    main(int(sys.argv[1]), Ground(Path(sys.argv[2]), *sys.argv[3:]))
