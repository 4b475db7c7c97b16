"""
The frames between a follower and its processes. A frame is a length and a pickle.

Arrow columns are packed separately: a pickle of some rows would contain the bytes of all rows.
"""

import pickle
import struct
from typing import Any

LENGTH = struct.Struct(">Q")
_VIEWS = ("body", "properties")


def pack(value: Any) -> bytes:
    """Make a frame."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def unpack(data: bytes) -> Any:
    """Read the pickle of a frame. The pickle can be trusted: both ends are the same program."""
    return pickle.loads(data)  # noqa: S301


def pack_messages(messages: Any) -> Any:
    """Convert messages into a value whose pickle is small."""
    if isinstance(messages, tuple):
        return messages
    import pyarrow as pa

    plain = messages
    for name in _VIEWS:
        column = messages.column(name).cast(pa.binary())
        plain = plain.set_column(plain.schema.get_field_index(name), name, column)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as stream:
        stream.write_batch(plain)
    return sink.getvalue().to_pybytes()


def unpack_messages(packed: Any) -> Any:
    """Undo `pack_messages`."""
    if isinstance(packed, tuple):
        return packed
    import pyarrow as pa

    from mq_client import columns

    return pa.ipc.open_stream(packed).read_next_batch().cast(columns.SCHEMA)
