"""The sides that can play: Evenkeel's kinds of consumers, and RocketMQ's own."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.handover import flow, goals, java_follower, job, python_follower, theirs
from benchmarks.handover.effects import Outcome
from benchmarks.handover.rounds import Rounds
from benchmarks.targets import Figure
from sandbox.node.shop import Shop

ListFigures = Callable[[Rounds, Rounds | None], Iterator[Figure]]
"""Compares a side with its targets, and with RocketMQ's side if that has played too."""


@dataclass(frozen=True, slots=True)
class Side:
    """A kind of consumers."""

    name: str
    about: str
    """Describes the side on the page of results, in the lines after its name."""
    play: Callable[[Shop, str], Outcome]
    """Plays all events on a topic that does not exist yet."""
    list_figures: ListFigures | None
    """None for the side that others are compared with. It plays one round, which is long."""


SIDES: Mapping[str, Side] = {
    "job": Side(job.NAME, job.ABOUT, job.play, goals.list_job_figures),
    "flow": Side(flow.NAME, flow.ABOUT, flow.play, goals.list_flow_figures),
    "python": Side(
        python_follower.NAME,
        python_follower.ABOUT,
        python_follower.play,
        lambda rounds, _: goals.list_member_figures(rounds, python_follower.IN_FLIGHT),
    ),
    "java": Side(
        java_follower.NAME,
        java_follower.ABOUT,
        java_follower.play,
        lambda rounds, _: goals.list_member_figures(rounds, java_follower.IN_FLIGHT),
    ),
    "plain": Side(theirs.NAME, theirs.ABOUT, theirs.play, None),
}
"""The sides by their names on the command line, in the order of the table."""


def list_figures(played: Mapping[str, Rounds]) -> Iterator[Figure]:
    """Compare the worst values of each side that has played with its targets."""
    peers = [rounds for name, rounds in played.items() if SIDES[name].list_figures is None]
    for name, rounds in played.items():
        compare = SIDES[name].list_figures
        if compare is not None:
            yield from compare(rounds, peers[0] if peers else None)
