"""What brokers tell of a group: how far it is behind, and who reads in its name. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evenkeel.control.seen import Conflict
from evenkeel.objects import Group
from mq_client.values import Lag, Member

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Census:
    """One look at the brokers."""

    lags: Sequence[Lag] = ()
    members: Sequence[Member] = ()

    @property
    def lag(self) -> int:
        """Count the messages that wait."""
        return sum(each.messages for each in self.lags)


def foreign(group: Group, census: Census | None) -> Conflict | None:
    """Find clients that are not our driver, where a job shall read alone."""
    job = group.spec.job
    if job is None or job.allow_foreign_consumers or census is None:
        return None
    others = [each for each in census.members if not _is_ours(group, each)]
    if not others:
        return None
    return Conflict(
        "ForeignConsumers",
        f"{_named(others)} read as {group.group!r} too, and messages would come twice: stop "
        "them, choose another spec.group, or set spec.job.allowForeignConsumers",
        stops=False,  # whoever joins a group that is read must not end the reading
    )


def _is_ours(group: Group, member: Member) -> bool:
    """Know our driver by its id, wherever it runs."""
    return member.client_id.startswith(f"evenkeel-{group.group}@")


def _named(members: Iterable[Member]) -> str:
    found = [f"{each.client_id} at {each.address}" for each in members]
    more = len(found) - MOST_NAMED
    return ", ".join(found[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
