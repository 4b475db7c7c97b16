"""
Runs members that ask the coordinator as followers do, over TLS, with the tokens of their pods.

They read no messages. They hold the queues that they are granted, and release withdrawn queues with
their next request.
"""

import asyncio
import contextlib
import gc
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.operator.api import Client, side_by_side
from benchmarks.operator.sizes import Size
from contract.following import AUDIENCE, FIRST_NUMBER, Asked, Refusal
from evenkeel.cluster.api import paths
from evenkeel.cluster.members.documents import AUTHORITIES, TRUST
from evenkeel.objects import Key
from follower import asking, asks
from follower.core import PAUSE_SECONDS
from follower.queues import read_queues
from mq_client.values import MessageQueue
from sandbox.kubernetes import ApiRefusedError
from sandbox.process import SandboxError, make_folder

A_SECOND = 20
"""How many members leave each second. The same number joins."""
AWAY_SECONDS = 1.0
ANSWER_SECONDS = 60.0
PATIENCE_SECONDS = 300.0
RETRY_SECONDS = 0.5
QUIET_SECONDS = 20.0
"""If no grant changes for this time, the grants are final. A rebalance does not take as long."""
SESSION_OVER = Refusal.SESSION_OVER.value
_TOKEN_SECONDS = 3600
_Condition = Callable[[], bool]


class Group:
    """The members of one group."""

    def __init__(self) -> None:
        """Begin without members."""
        self.members: list[Member] = []
        self.changed_at = 0.0
        self._awaited: list[tuple[_Condition, asyncio.Future[float]]] = []

    def await_condition(self, is_so: _Condition) -> asyncio.Future[float]:
        """Return a future for the time of the answer after which a condition holds."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._awaited.append((is_so, future))
        return future

    def note_change(self) -> None:
        """Note that a member was granted other queues than before."""
        self.changed_at = time.perf_counter()
        met = [each for each in self._awaited if each[0]()]
        self._awaited = [each for each in self._awaited if each not in met]
        for _, future in met:
            if not future.done():
                future.set_result(self.changed_at)

    def holds(self, queues: frozenset[MessageQueue]) -> bool:
        """Whether all these queues are granted to members of the group."""
        return queues <= frozenset().union(*(each.held for each in self.members))


class Member:
    """A member of a group, which may leave and join again."""

    def __init__(self, group: Group, coordinator: asking.Coordinator) -> None:
        """Connect to nothing yet."""
        self._group = group
        self._coordinator = coordinator
        self._life = contextlib.AsyncExitStack()
        self._asking: asyncio.Task[None] | None = None
        self._session = ""
        self.held: frozenset[MessageQueue] = frozenset()
        self.answers = 0

    async def join(self) -> None:
        """Begin a session, and ask until `leave`."""
        self._session = secrets.token_hex(8)
        await self._life.enter_async_context(self._coordinator)
        self._asking = asyncio.create_task(self._ask())

    async def leave(self) -> None:
        """End the session."""
        await self.stop()
        async with self._coordinator:
            await self._coordinator.leave(self._session)
        self.held = frozenset()

    async def stop(self) -> None:
        """Stop asking, and close the connections."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._life.aclose()

    async def _ask(self) -> None:
        number, revision = FIRST_NUMBER, 0
        while True:
            asked = Asked(self._session, number, revision, self.held)
            try:
                answer = await self._coordinator.ask(asked, ANSWER_SECONDS, 2 * ANSWER_SECONDS)
            except (asks.RefusedError, asks.NoAnswerError) as error:
                if revision:
                    raise
                # The operator has not seen the pod yet, or too many connect at the same time.
                await asyncio.sleep(PAUSE_SECONDS)  # as a follower does
                number += 1
                if isinstance(error, asks.RefusedError) and error.reason == SESSION_OVER:
                    self._session, number = secrets.token_hex(8), FIRST_NUMBER
                continue
            number, revision = number + 1, answer.revision
            self.answers += 1
            held = read_queues(answer.grants)
            if held != self.held:
                self.held = held
                self._group.note_change()

    def check(self) -> None:
        """Raise the error that has ended the requests, if there is one."""
        if self._asking is not None and self._asking.done() and not self._asking.cancelled():
            self._asking.result()


@dataclass(frozen=True, slots=True)
class Delays:
    """Times in seconds, one for each member that left and joined."""

    left: Sequence[float]
    """From the end of a session until others were granted all its queues."""
    joined: Sequence[float]
    """From the first request until the member was granted all queues that it owns."""


class Members:
    """The members of all groups."""

    def __init__(self, groups: Sequence[Group]) -> None:
        """Take over groups whose members have not joined yet."""
        self._groups = groups
        self._all = [member for group in groups for member in group.members]

    @property
    def answers(self) -> int:
        """How many requests were answered."""
        return sum(each.answers for each in self._all)

    def check(self) -> None:
        """Raise if a member was refused, or could not ask."""
        for each in self._all:
            each.check()

    async def settle(self, queues: int) -> None:
        """Let all members join; wait until all queues are granted and no grant changes any more."""
        begun = time.perf_counter()
        held: list[int] = []
        for each in self._all:
            await each.join()
        while time.perf_counter() < begun + PATIENCE_SECONDS:
            await asyncio.sleep(1)
            self.check()
            held = [sum(len(each.held) for each in group.members) for group in self._groups]
            last = max(group.changed_at for group in self._groups)
            if held == [queues] * len(held) and time.perf_counter() > last + QUIET_SECONDS:
                gc.collect()
                gc.disable()  # its pauses would count as the coordinator's
                return
        raise SandboxError(
            f"{held.count(queues)} of {len(held)} groups have all queues granted, and not all are "
            f"quiet after {PATIENCE_SECONDS:g} s"
        )

    async def come_and_go(self, seconds: float) -> Delays:
        """Let members leave at a steady rate, and join again after a second."""
        begun = time.perf_counter()
        under_way = []
        for number in range(round(seconds * A_SECOND)):
            await asyncio.sleep(begun + number / A_SECOND - time.perf_counter())
            turn, place = divmod(number, len(self._groups))
            group = self._groups[place]
            member = group.members[turn % len(group.members)]
            under_way.append(asyncio.create_task(self._play(group, member)))
        found = await asyncio.gather(*under_way)
        self.check()
        return Delays([left for left, _ in found], [joined for _, joined in found])

    async def _play(self, group: Group, member: Member) -> tuple[float, float]:
        owned = member.held
        left_at = time.perf_counter()
        await member.leave()
        lent = group.await_condition(lambda: group.holds(owned))
        group.note_change()  # the other members may have got their answers first
        left = max(0.0, await _soon(lent) - left_at)
        await asyncio.sleep(AWAY_SECONDS)
        returned = group.await_condition(lambda: member.held == owned)
        joined_at = time.perf_counter()
        await member.join()
        return left, await _soon(returned) - joined_at

    async def stop(self) -> None:
        """Let all members stop asking."""
        for each in self._all:
            await each.stop()


async def _soon(future: asyncio.Future[float]) -> float:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await future
    except TimeoutError:
        raise SandboxError(f"queues are not granted after {PATIENCE_SECONDS:g} s") from None


@contextlib.asynccontextmanager
async def make_members(client: Client, size: Size, port: int) -> AsyncIterator[Members]:
    """Make the members of all pods, with tokens as the kubelet provides them."""
    with make_folder("evenkeel-members-") as folder:
        (folder.path / AUTHORITIES).write_text(await _await_trust(client, size.list_spaces()[0]))
        groups = []
        issuing = []
        for key in size.group_keys():
            group = Group()
            groups.append(group)
            issuing += [
                _make_member(client, key, pod, group, port, folder.path)
                for pod in size.list_pods(key)
            ]
        await side_by_side(issuing)
        members = Members(groups)
        try:
            yield members
        finally:
            await members.stop()


async def _make_member(
    client: Client, key: Key, pod: Key, group: Group, port: int, folder: Path
) -> None:
    token = folder / pod.name
    token.write_text(await _issue_token(client, pod))
    url, name = f"https://localhost:{port}", f"{key.namespace}/{key.name}"
    coordinator = asking.Coordinator(url, name, pod.name, token, folder / AUTHORITIES)
    group.members.append(Member(group, coordinator))


async def _issue_token(client: Client, pod: Key) -> str:
    found = msgspec.json.decode(await client.ask("GET", paths.build_path(paths.PODS, pod)))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": found["metadata"]["uid"]}
    spec = {"audiences": [AUDIENCE], "expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound}
    path = f"/api/v1/namespaces/{pod.namespace}/serviceaccounts/default/token"
    answer = msgspec.json.decode(await client.ask("POST", path, {"spec": spec}))
    token: str = answer["status"]["token"]
    return token


async def _await_trust(client: Client, namespace: str) -> str:
    """Wait until the operator has written the authority of its certificate, and return it."""
    path = f"/api/v1/namespaces/{namespace}/configmaps/{TRUST}"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            with contextlib.suppress(ApiRefusedError):
                found = msgspec.json.decode(await client.ask("GET", path))
                authorities: str = found["data"][AUTHORITIES]
                return authorities
            await asyncio.sleep(RETRY_SECONDS)
