"""Evenkeel's follower in Python, with a handler that writes down what it gets."""

from pathlib import Path

from benchmarks.handover import members
from benchmarks.handover.effects import Outcome
from benchmarks.handover.pods import Program
from follower.options import FollowerOptions
from sandbox import images
from sandbox.node.shop import ROOT, Shop

NAME = "Python follower"
ABOUT = f"""{members.ABOUT}, and `python -m follower`
  in the pods of a StatefulSet, with default settings. A message counts as read when the
  handler receives it.
"""
IN_FLIGHT = FollowerOptions().batch * members.QUEUES_EACH
"""How many messages can be in running calls at most: each queue has one call at a time."""
HANDLERS = Path(__file__).parent / "peers" / "python"
HANDLER = "writing:handle"


def make_program(topic: str) -> Program:
    """Describe the pods. They mount the follower's code; the operator's image has all the rest."""
    return members.make_program(
        f"evenkeel-operator:{images.read_version()}",
        f"env PYTHONPATH=/code:/handlers python -m follower {HANDLER} "
        f"--coordinator={members.COORDINATOR} --group={members.name_group(topic)} "
        f"--token-file={members.TOKEN} --ca-file={members.AUTHORITIES}",
        {"/code/follower": ROOT / "follower", "/handlers": HANDLERS},
    )


def play(shop: Shop, topic: str) -> Outcome:
    """Play all events once."""
    return members.play(shop, topic, make_program(topic))
