"""
The client ids of drivers at the brokers: evenkeel-GROUP@HOST#ORIGIN.

The origin is that of the ConsumerGroup object that the driver runs for. Drivers of earlier versions
name none.
"""


def make(group: str, host: str, origin: str) -> str:
    """Name the driver of an object, as a member of a RocketMQ group."""
    return f"{_make_prefix(group)}{host}#{origin}"


def is_driver(client_id: str, group: str) -> bool:
    """Whether a member of a RocketMQ group is a driver of ours."""
    return client_id.startswith(_make_prefix(group))


def find_origin(client_id: str) -> str:
    """Tell for which object a driver runs; empty if its id does not say so."""
    return client_id.partition("#")[2]


def _make_prefix(group: str) -> str:
    return f"evenkeel-{group}@"
