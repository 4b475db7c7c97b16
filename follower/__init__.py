"""
Follows an assignment: reads the queues that a coordinator grants, and no others.

The modules `core`, `reading`, `lease` and `actions` decide what to do, without clocks and sockets.
`Follower` carries out their decisions. `Follower` is imported on first use, because it needs an
HTTP client, which these modules do not need.
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
