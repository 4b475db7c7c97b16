"""Decide which consumer gets which queue, by RocketMQ's strategies or by STICKY."""

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
