"""Opens a port on all addresses of the pod, IPv4 and IPv6."""

import contextlib
import socket


def open_port(port: int, backlog: int) -> socket.socket:
    """Open the port. Raise `OSError` if that is not possible."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be disabled
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
            )
    return socket.create_server(("", port), backlog=backlog)
