"""
RocketMQ's own strategies, one a file, exact to the last edge, and those that users add.

Ask for one with `find("AVG")`. These are compatibility functions: lists as given, results as
RocketMQ's classes give them, unsorted and not validated.
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
)
from lb_core.strategies.common import Strategy
from lb_core.strategies.registry import UserFunction, find, names, register, unregister

registry.build_in(
    averagely.STRATEGY,
    averagely_by_circle.STRATEGY,
    consistent_hash.STRATEGY,
    machine_room.STRATEGY,
    machine_room_nearby.STRATEGY,
    config.STRATEGY,
    broadcasting.STRATEGY,
)

__all__ = ["Strategy", "UserFunction", "find", "names", "register", "unregister"]
