"""
Follows an assignment: reads the queues that a coordinator grants, and no other.

`core`, `reading`, `lease` and `actions` decide, and know neither clocks nor sockets. `Follower`
performs what they decide. It is imported when it is first used: the cores need no HTTP client.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from follower.member import Follower

__all__ = ["Follower"]


def __getattr__(name: str) -> Any:
    if name == "Follower":
        from follower.member import Follower

        return Follower
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
