"""
The driver's side of a flow: grants queues to tasks, and commits what they have written.

Everything here runs on one event loop, in a separate thread. The driver's loop calls only those
methods of `FlowServer` whose docstrings say so. Other threads write files, so that grants never
wait for files.

A commit goes through these steps. The table in `checkpoint/journal.py` says what happens after a
crash between any two of them:

    accepted by `Commits`  ->  in an entry of the journal  ->  its folder moved  ->  the task knows

Commits that arrive while an entry is written go into the next entry together.
"""

import asyncio
import hmac
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from py4j.protocol import Py4JError

from contract.following import (
    UNREADABLE,
    Asked,
    GroupSource,
    MemberAnswer,
    MemberRefusal,
    Refusal,
    Terms,
)
from coordinator.group import GroupCoordinator
from follower.queues import read_queues, write_queues
from mq_client.errors import MqError
from mq_client.values import MessageQueue
from spark_jobs import journal as offsets
from spark_jobs.pipeline.assignments import NO_ASSIGNMENT, JobAssignment
from spark_jobs.pipeline.checkpoint.journal import (
    CheckpointState,
    JobJournal,
    JournalTakenError,
    Pending,
)
from spark_jobs.pipeline.failures import HOW_TO_SKIP
from spark_jobs.pipeline.fetching import Tally
from spark_jobs.pipeline.flow import wire
from spark_jobs.pipeline.flow.beginning import FlowBeginning
from spark_jobs.pipeline.flow.commits import Commits
from spark_jobs.pipeline.flow.sinks import folders
from spark_jobs.pipeline.flow.sinks.kinds import FlowSinks, Written
from spark_jobs.pipeline.retries import PATIENCE

log = logging.getLogger("evenkeel.job")
TERMS = Terms(session=2.0, drain=30.0)
"""The driver gives up a task that is silent for `session`: it is frozen, cut off, or dead."""
LOCATE_AGAIN_SECONDS = 1.0
FindBegins = Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, int]]
"""Finds the new queues, which are not among the given ones, and where they begin."""

NoteCommit = Callable[[wire.CommitFigures], None]
"""Called for each commit after it is in the journal. `age` is the age of the rows then."""


class LossRefusedError(Exception):
    """Messages are lost, or a queue was recreated. Only the user may decide to continue."""


class LossFoundError(Exception):
    """Messages are lost, and the user allows losses. The driver must start again to skip them."""


@dataclass(eq=False)
class Peer:
    """One connection of a task."""

    slot: str
    executor: str | None
    writer: asyncio.StreamWriter
    waiting: int | None = None
    """The number of the `TaskAsk` that waits for a change of the grants."""
    timer: asyncio.TimerHandle | None = None
    is_told_to_stop: bool = False

    def send(self, message: wire.FromDriver) -> None:
        """Send a message. If the connection has ended, do nothing."""
        if not self.writer.is_closing():
            self.writer.write(wire.write(message))


@dataclass(frozen=True, slots=True)
class AcceptedCommit:
    """A commit that counts, but is not in the journal yet."""

    slot: str
    asked: wire.TaskCommit
    moves: Sequence[Pending]
    """The folders that will be moved."""
    at: float = field(default_factory=time.monotonic)


class FlowServer:
    """The coordinator of a flow's tasks."""

    def __init__(
        self,
        beginning: FlowBeginning,
        journal: JobJournal,
        sinks: FlowSinks,
        source: GroupSource,
        find_begins: FindBegins,
        secret: str,
        note_commit: NoteCommit,
    ) -> None:
        """Serve nothing yet."""
        self._note_commit = note_commit
        self._loop: asyncio.AbstractEventLoop
        """Set by `start`."""
        self._thread: threading.Thread
        self._closing = asyncio.Event()
        self._state = state = beginning.state
        self._lost_below = beginning.lost_below
        self._journal = journal
        self._sinks = sinks
        self._source = source
        self._find_begins = find_begins
        self._secret = secret
        self._commits = Commits(offsets.read_offsets(state.offsets))
        self._batch = state.batch
        self._group: GroupCoordinator[MessageQueue] = GroupCoordinator(TERMS, time.monotonic(), 0)
        self._assignment = NO_ASSIGNMENT
        self._expected: dict[str, str] = {}
        """By slot: the executor whose task may read the slot's queues."""
        self._peers: dict[str, Peer] = {}
        self._accepted: list[AcceptedCommit] = []
        """Commits that wait for the next entry of the journal."""
        self._unsettled: dict[str, wire.TaskCommit] = {}
        """By session: the commit that was accepted and is not in the journal yet."""
        self._has_accepted = asyncio.Event()
        self._locating = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: Future[None] = Future()
        self.tally = Tally()
        """What the tasks have committed. Other threads may read it."""
        self.given_up = 0
        """Tasks that were given up: they were silent, or their connection ended."""
        self.refused = 0
        """Commits that were refused: their tasks had been given up."""
        self.ends: Mapping[MessageQueue, int] = dict(self._commits.ends)
        """Where each queue is read next, by the journal. Other threads may read it."""
        self.adopted_epoch = state.epoch
        self.batch = state.batch
        self._troubles: dict[MessageQueue | str, tuple[int, str]] = {}
        """
        The queues that cannot advance, each with its offset and the reason. If tasks pop, their
        slots instead of the queues.
        """
        self.trouble: str | None = None
        """What goes wrong now, in words. Other threads may read it."""
        self.port = 0

    def start(self, host: str, port: int) -> None:
        """Serve from now on, in a separate thread. Port 0 means any free port."""
        started: Future[int] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(host, port, started)), name="flow", daemon=True
        )
        self._thread.start()
        self.port = started.result()

    def publish(self, assignment: JobAssignment, expected: Mapping[str, str]) -> None:
        """Follow an assignment, with these executors in its slots. The driver's loop calls it."""
        self._loop.call_soon_threadsafe(self._publish, assignment, dict(expected))

    def check(self) -> None:
        """Raise the error that has ended the commits, if any. The driver's loop calls it."""
        if self._failed.done():
            self._failed.result()

    def close(self) -> None:
        """End all connections. The driver's loop calls it after the tasks have ended."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        if self._state.pending and not self._unsettled:  # otherwise a move may be unfinished
            self._forget_moves()

    def _forget_moves(self) -> None:
        """Write a last entry without pending moves: the next job may have another sink."""
        try:
            self._journal.append(msgspec.structs.replace(self._state, pending=[]))
        except (OSError, Py4JError, JournalTakenError) as error:
            log.warning("the last entry of the journal cannot be written: %s", error)

    async def _run(self, host: str, port: int, started: "Future[int]") -> None:
        self._loop = asyncio.get_running_loop()
        try:
            server = await asyncio.start_server(
                lambda *connection: self._start(self._serve(*connection)),
                host, port, limit=wire.MOST_LINE_BYTES,
            )  # fmt: skip
        except OSError as error:
            started.set_exception(error)
            return
        self._start(self._keep_committing())
        started.set_result(server.sockets[0].getsockname()[1])
        await self._closing.wait()
        server.close()
        for peer in self._peers.values():
            peer.writer.close()
        self._peers.clear()  # none of them is lost

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _publish(self, assignment: JobAssignment, expected: dict[str, str]) -> None:
        self._expected = expected
        for slot, peer in list(self._peers.items()):
            if expected.get(slot) != peer.executor:
                self._stop(peer)
        if assignment is not self._assignment:
            self._assignment = assignment
            self._group.publish(
                assignment.epoch, assignment.owners, assignment.slots, time.monotonic()
            )
        self._turn()

    def _stop(self, peer: Peer) -> None:
        if not peer.is_told_to_stop:
            peer.is_told_to_stop = True
            peer.send(wire.Stop())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: Peer | None = None
        try:
            hello = wire.read_from_task(await reader.readline())
            peer = self._greet(hello, writer)
            while peer is not None and (line := await reader.readline()):
                self._hear(peer, wire.read_from_task(line))
        except (OSError, ValueError, *UNREADABLE) as error:
            log.debug("a task's connection has ended: %s", error)
        finally:
            writer.close()
            if peer is not None and self._peers.get(peer.slot) is peer:
                self._note_lost(peer)

    def _greet(self, hello: wire.FromTask, writer: asyncio.StreamWriter) -> Peer | None:
        """Accept a connection, or refuse it."""
        if not isinstance(hello, wire.TaskHello) or not hmac.compare_digest(
            hello.secret.encode(), self._secret.encode()
        ):
            log.warning("something that is no task of this job has connected to the driver")
            return None
        peer = Peer(hello.slot, hello.executor, writer)
        if self._expected.get(hello.slot) != hello.executor:
            self._stop(peer)
            return None
        older = self._peers.get(hello.slot)
        if older is not None:
            older.writer.close()
        self._peers[hello.slot] = peer
        return peer

    def _note_lost(self, peer: Peer) -> None:
        """
        End the session of a task whose connection has ended: most likely, its executor was killed.

        If only the network has failed, the task reads again what it has not committed.
        """
        del self._peers[peer.slot]
        if peer.slot in self._group.sessions:
            log.warning("slot %s: the connection of its task has ended", peer.slot)
            self.given_up += 1
        self._group.end(peer.slot, None, time.monotonic())
        self._turn()

    def _hear(self, peer: Peer, message: wire.FromTask) -> None:
        if self._peers.get(peer.slot) is not peer:  # a newer connection has taken its place
            peer.writer.close()
            return
        match message:
            case wire.TaskAsk():
                self._hear_ask(peer, message)
            case wire.TaskLocate():
                self._start(self._locate(peer, message))
            case wire.TaskCommit():
                self._hear_commit(peer, message)
            case wire.TaskTrouble():
                self._note_trouble(peer, message)
            case wire.TaskLeave(session=session):
                self._group.end(peer.slot, session, time.monotonic())
            case wire.TaskHello():
                peer.writer.close()
        self._turn()

    def _hear_ask(self, peer: Peer, message: wire.TaskAsk) -> None:
        asked = message.request
        found = self._group.ask(
            peer.slot,
            Asked(asked.session, asked.number, asked.revision, read_queues(asked.holds)),
            time.monotonic(),
        )
        if found is Refusal.ANOTHER_SESSION:
            # A slot has one connection, so the task of the other session is gone.
            self._group.end(peer.slot, None, time.monotonic())
            self._hear_ask(peer, message)
            return
        if isinstance(found, Refusal):
            peer.send(wire.AskRefused(asked.number, MemberRefusal(found.value, found.value)))
            return
        peer.waiting = asked.number
        if asked.revision != found.revision or asked.wait_seconds == 0:
            self._answer(peer)
            return
        if peer.timer is not None:
            peer.timer.cancel()
        peer.timer = self._loop.call_later(min(asked.wait_seconds, TERMS.poll), self._answer, peer)

    def _answer(self, peer: Peer) -> None:
        """Answer the newest `TaskAsk` of a task, if one waits."""
        session = self._group.sessions.get(peer.slot)
        if peer.waiting is None or session is None or self._peers.get(peer.slot) is not peer:
            return
        grants = self._group.answer(session)
        answer = MemberAnswer(
            grants.epoch, grants.revision, write_queues(grants.queues), TERMS.session,
            TERMS.drain, TERMS.on_outage, self._source,
        )  # fmt: skip
        peer.send(wire.AskGranted(peer.waiting, answer))
        peer.waiting = None

    async def _locate(self, peer: Peer, message: wire.TaskLocate) -> None:
        """Answer where a queue begins. For a new queue, ask the brokers until they answer."""
        while message.queue not in self._commits.ends:
            await self._find_new_begins(message.queue)
            if self._peers.get(peer.slot) is not peer:
                return
            if message.queue not in self._commits.ends:
                await asyncio.sleep(LOCATE_AGAIN_SECONDS)
        begin = self._commits.ends[message.queue]
        peer.send(wire.Located(message.call, begin, self._lost_below.get(message.queue, 0)))

    async def _find_new_begins(self, queue: MessageQueue) -> None:
        async with self._locating:
            if queue in self._commits.ends:
                return
            try:
                begins = await asyncio.to_thread(self._find_begins, dict(self._commits.ends))
            except MqError as error:
                log.warning("%s: where to begin is not known yet: %s", queue, error)
            else:
                self._commits.begin(begins)

    def _hear_commit(self, peer: Peer, asked: wire.TaskCommit) -> None:
        unsettled = self._unsettled.get(asked.session)
        if unsettled is not None and unsettled.number == asked.number:
            # The commit is accepted already, even if its session has ended since then.
            self._unsettled[asked.session] = asked
            return
        session = self._group.sessions.get(peer.slot)
        if session is not None and self._commits.is_repeated(asked):
            peer.send(wire.Settled(asked.call, is_accepted=True))
            return
        if unsettled is not None or not self._commits.accept(asked, session):
            self.refused += 1
            log.warning("slot %s: a commit is refused: its task had been given up", peer.slot)
            peer.send(wire.Settled(asked.call, is_accepted=False))
            return
        self._unsettled[asked.session] = asked
        self._batch += asked.figures.rows > 0
        written = Written(asked.folder, asked.dead_folder)
        moves = self._sinks.plan_moves(written, self._batch)
        self._accepted.append(AcceptedCommit(peer.slot, asked, moves))
        self._has_accepted.set()

    async def _keep_committing(self) -> None:
        """Write accepted commits to the journal, move their folders, and answer their tasks."""
        while True:
            await self._has_accepted.wait()
            self._has_accepted.clear()
            group, self._accepted = self._accepted, []
            moves = [move for each in group for move in each.moves]
            ends = dict(self._commits.ends)
            state = msgspec.structs.replace(
                self._state, epoch=self.adopted_epoch, batch=self._batch,
                offsets=offsets.write_offsets(ends), pending=moves,
            )  # fmt: skip
            await self._persist(state)
            self._state = state
            self.ends, self.batch = ends, state.batch
            for each in group:
                self._troubles.pop(each.slot, None)
            self._note_progress()
            for each in group:
                self._count(each)
                newest = self._unsettled.pop(each.asked.session)
                if each.slot in self._peers:  # the task may have reconnected by now
                    self._peers[each.slot].send(wire.Settled(newest.call, is_accepted=True))

    async def _persist(self, state: CheckpointState) -> None:
        """Write an entry, and move its folders. Try again while the file system does not work."""
        steps: list[Callable[[], None]] = [partial(self._journal.append, state)]
        steps += [partial(folders.move, each, self._sinks.folders) for each in state.pending]
        for pause in PATIENCE.make_pauses():
            try:
                await asyncio.to_thread(_take, steps)
            except (OSError, Py4JError) as error:
                text = str(error).strip().partition("\n")[0]
                self.trouble = f"commits wait, because files cannot be written: {text}"
                log.warning("%s; trying again in %g s", self.trouble, pause)
                await asyncio.sleep(pause)
            else:
                return

    def _count(self, accepted: AcceptedCommit) -> None:
        tally, slot, asked = self.tally, accepted.slot, accepted.asked
        figures = asked.figures
        age = figures.age + time.monotonic() - accepted.at
        self._note_commit(msgspec.structs.replace(figures, age=age))
        tally.rows[slot] = tally.rows.get(slot, 0) + figures.rows
        tally.bytes += figures.bytes
        tally.tasks += 1
        tally.offsets += sum(part.stop - part.start for part in asked.ranges)

    def _note_trouble(self, peer: Peer, found: wire.TaskTrouble) -> None:
        log.warning("slot %s: %s", peer.slot, found.text)
        key = found.queue if self._source.messages is None else peer.slot
        self._troubles[key] = found.offset, found.text
        self._note_progress()
        if self._failed.done():
            return
        match found.consequence:
            case wire.Consequence.JOB_ENDS:
                self._failed.set_exception(LossRefusedError(f"{found.text}{HOW_TO_SKIP}"))
            case wire.Consequence.JOB_STARTS_AGAIN:
                self._failed.set_exception(LossFoundError(found.text))
            case wire.Consequence.QUEUE_WAITS:
                pass

    def _lasts(self, key: MessageQueue | str, offset: int) -> bool:
        """Whether trouble is not over yet. That of a slot ends with its next commit or session."""
        if isinstance(key, str):
            return key in self._group.sessions
        return self.ends.get(key, 0) <= offset

    def _note_progress(self) -> None:
        """Forget troubles that are over, and describe the others in `trouble`."""
        self._troubles = {
            key: (offset, text)
            for key, (offset, text) in self._troubles.items()
            if self._lasts(key, offset)
        }
        texts = [text for _, text in self._troubles.values()]
        more = f" (and {len(texts) - 1} more queues)" if len(texts) > 1 else ""
        self.trouble = f"{texts[0]}{more}" if texts else None

    def _turn(self) -> None:
        """Update the group, answer tasks whose grants have changed, and set the next timer."""
        self._group.tick(time.monotonic())
        for slot in self._group.take_silent():
            self.given_up += 1
            log.warning("slot %s: its task is silent for %g s and is given up", slot,
                        TERMS.session)  # fmt: skip
        if changed := self._group.take_changed():
            self._commits.forget_others({each.id for each in self._group.sessions.values()})
            if self._source.messages is not None:
                self._note_progress()
        for slot in changed & self._peers.keys():
            self._answer(self._peers[slot])
        if self.adopted_epoch < self._group.epoch:
            counted = self._group.count_held()
            is_granted = counted.granted_queues or self._source.messages is not None
            if is_granted and not counted.leaving_queues + counted.waiting_queues:
                self.adopted_epoch = self._group.epoch
        if self._timer is not None:
            self._timer.cancel()
        due = self._group.find_next_change()
        if due is not None:
            self._timer = self._loop.call_at(due, self._turn)


def _take(steps: list[Callable[[], None]]) -> None:
    """Run the steps in order, and remove those that succeed. After an error, call this again."""
    while steps:
        steps[0]()
        del steps[0]
