"""
A name server and broker in one, on loopback, whose answers a test chooses.

`with Peer() as peer` answers at `peer.address`. It has the topic "orders" on broker-a, with four
queues of 100 messages each; a pull returns ten messages. A request whose code is in `held` gets its
answer after `let_go`.
"""

import json
import socketserver
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from mq_client import frames
from mq_client.commands.cluster import GetCluster, GetRoute, GetTopics
from mq_client.commands.pulling import Pull
from mq_client.commands.sending import Send
from mq_client.frames import Frame
from tests import stored

END = 100
A_PULL = 10
FOUND, NOTHING_NEW = 0, 19


class Peer:
    """A peer that runs in its own threads until the block ends."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.held: set[int] = set()
        self.let_go = threading.Event()
        self.refuses: Callable[[Frame], int] = lambda _: 0
        """Returns the code with which a request is refused, or 0."""
        self.asked_bytes: set[int] = set()
        """The byte limits that pulls asked for."""
        self.topics = ["orders"]
        self.bodies: list[bytes] = []
        """The bodies of the messages that were sent."""
        peer = self

        class Conversation(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                peer._converse(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _converse(self, with_whom: socketserver.BaseRequestHandler) -> None:
        reader = frames.FrameReader()
        try:
            while size := with_whom.request.recv_into(reader.get_space()):
                for frame in reader.accept(size):
                    self.asked[frame.code] += 1
                    if frame.code in self.held:
                        self.let_go.wait()
                    with_whom.request.sendall(frames.encode(self._answer(frame)))
        except OSError:
            return  # the client has gone

    def _answer(self, frame: Frame) -> Frame:
        if code := self.refuses(frame):
            return answer(frame, code)
        match frame.code:
            case GetRoute.code:
                return answer(frame, body=self._route())
            case GetCluster.code:
                return answer(frame, body={"clusterAddrTable": {}, "brokerAddrTable": {}})
            case GetTopics.code:
                return answer(frame, body={"topicList": self.topics})
            case Pull.code:
                self.asked_bytes.add(int(frame.fields["maxMsgBytes"]))
                return pulled(frame)
            case Send.code:
                self.bodies.append(bytes(frame.body))
                return answer(frame, queueId=frame.fields["e"], queueOffset=str(END))
            case _:
                return answer(frame)

    def _route(self) -> object:
        broker = {"brokerName": "broker-a", "cluster": "c", "brokerAddrs": {"0": self.address}}
        queues = {"brokerName": "broker-a", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
        return {"brokerDatas": [broker], "queueDatas": [queues]}


def answer(to: Frame, code: int = 0, body: object = None, **fields: str) -> Frame:
    data = b"" if body is None else json.dumps(body).encode()
    return Frame(code, to.opaque, frames.ANSWER, fields, None, data)


def pulled(to: Frame) -> Frame:
    offset = int(to.fields["queueOffset"])
    stop = min(offset + A_PULL, END)
    told = answer(
        to,
        FOUND if stop > offset else NOTHING_NEW,
        nextBeginOffset=str(stop),
        minOffset="0",
        maxOffset=str(END),
        suggestWhichBrokerId="0",
    )
    queue_id = int(to.fields["queueId"])
    found = [stored.message(queue_id=queue_id, offset=place) for place in range(offset, stop)]
    return replace(told, body=b"".join(found))
