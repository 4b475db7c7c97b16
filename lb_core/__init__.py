"""
Who gets which queue: RocketMQ's allocation strategies, and STICKY, which moves the fewest.

Pure functions over frozen values; the standard library only. Start with `plan.plan`.
"""

from lb_core.assignment import Assignment
from lb_core.model import Member, Queue, QueueRange
from lb_core.moves import Move
from lb_core.plan import Plan
from lb_core.policy import Policy, Zones
from lb_core.previous import Given

__all__ = [
    "Assignment",
    "Given",
    "Member",
    "Move",
    "Plan",
    "Policy",
    "Queue",
    "QueueRange",
    "Zones",
]
