"""
The client ids that drivers use at the brokers: evenkeel-GROUP@HOST#ORIGIN.

The origin identifies the ConsumerGroup object that the driver runs for. Drivers of earlier versions
have ids without an origin.
"""


def make(group: str, host: str, origin: str) -> str:
    """Make the client id of a driver."""
    return f"{_make_prefix(group)}{host}#{origin}"


def is_driver(client_id: str, group: str) -> bool:
    """Return whether a client id belongs to a driver of Evenkeel for this group."""
    return client_id.startswith(_make_prefix(group))


def find_origin(client_id: str) -> str:
    """Find the origin in a client id; empty if there is none."""
    return client_id.partition("#")[2]


def _make_prefix(group: str) -> str:
    return f"evenkeel-{group}@"
