"""
Who gets which queue: RocketMQ's allocation strategies, and STICKY, which moves the fewest.

Pure functions over frozen values; the standard library only. Start with `plan.plan`.
"""

from lb_core.model import Member, Queue, QueueRange
from lb_core.policy import Policy, Zones

__all__ = ["Member", "Policy", "Queue", "QueueRange", "Zones"]
