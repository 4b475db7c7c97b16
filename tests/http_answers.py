"""Runs a server on loopback that gives every request the same answer, byte by byte."""

import socketserver
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def answering(answer: Iterable[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Answer every request with these bytes; yield the address, and the requests received."""
    heard: list[bytes] = []

    class Conversation(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            heard.append(self.request.recv(65536))
            try:
                for piece in answer:
                    self.wfile.write(piece)
            except OSError:  # the client has gone
                pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation) as server:
        server.block_on_close = False
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", heard
        finally:
            server.shutdown()
            thread.join()


def redirect(status: int, to: str) -> list[bytes]:
    return [f"HTTP/1.1 {status} Away\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()]
