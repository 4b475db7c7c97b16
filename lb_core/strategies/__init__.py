"""
All strategies, one per file.

They are STICKY, RocketMQ's strategies with exactly RocketMQ's results, and users' own strategies.
`find("AVG")` returns the strategy that plans for a group. `find_dealer("AVG")` returns the part
that deals one list as RocketMQ's class does: it neither sorts its lists nor validates its results.
"""

from lb_core.strategies import (
    averagely,
    averagely_by_circle,
    broadcasting,
    config,
    consistent_hash,
    machine_room,
    machine_room_nearby,
    registry,
    sticky,
)
from lb_core.strategies.common import Dealer
from lb_core.strategies.registry import (
    UserFunction,
    find,
    find_by_title,
    find_dealer,
    list_built_in,
    list_names,
    register,
    unregister,
)
from lb_core.strategies.strategy import Strategy

registry.build_in(
    sticky.STRATEGY,
    averagely.STRATEGY,
    averagely_by_circle.STRATEGY,
    consistent_hash.STRATEGY,
    machine_room.STRATEGY,
    machine_room_nearby.STRATEGY,
    config.STRATEGY,
    broadcasting.STRATEGY,
)

__all__ = [
    "Dealer",
    "Strategy",
    "UserFunction",
    "find",
    "find_by_title",
    "find_dealer",
    "list_built_in",
    "list_names",
    "register",
    "unregister",
]
