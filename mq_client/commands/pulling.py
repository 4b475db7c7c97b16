"""Requests that pull messages, and that check a filter for pulls."""

from dataclasses import dataclass
from typing import ClassVar

from mq_client import errors, filters
from mq_client.commands.base import Done, Request, read_whole, to_json
from mq_client.filters import Filter
from mq_client.frames import Frame
from mq_client.values import Pulled, PullStatus

SUSPEND, SUBSCRIPTION_GIVEN = 2, 4
"""Bits of a pull's sysFlag."""


@dataclass(frozen=True, slots=True)
class Pull(Request[Pulled]):
    """Ask for messages from an offset on. The broker waits up to `suspend_ms` if there are none."""

    code: ClassVar[int] = 11
    name: ClassVar[str] = "PULL_MESSAGE"
    good_codes: ClassVar[frozenset[int]] = frozenset(status.value for status in PullStatus)
    group: str
    topic: str
    queue_id: int
    offset: int
    most: int
    most_bytes: int
    suspend_ms: int = 0
    wanted: Filter = filters.EVERYTHING

    def list_fields(self) -> dict[str, str]:
        """Include the subscription, so that no heartbeat is needed first."""
        return {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": str(self.queue_id),
            "queueOffset": str(self.offset),
            "maxMsgNums": str(self.most),
            "maxMsgBytes": str(self.most_bytes),
            "sysFlag": str(SUBSCRIPTION_GIVEN | (SUSPEND if self.suspend_ms else 0)),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(self.suspend_ms),
            "subscription": self.wanted.expression,
            "subVersion": "0",
            "expressionType": self.wanted.kind,
        }

    def read(self, answer: Frame) -> Pulled:
        """Read the offsets. The messages stay encoded."""
        return Pulled(
            PullStatus(answer.code),
            read_whole(answer, "nextBeginOffset"),
            read_whole(answer, "minOffset"),
            read_whole(answer, "maxOffset"),
            read_whole(answer, "suggestWhichBrokerId"),
            answer.body,
            answer.remark,
        )

    def describe(self) -> str:
        """Name the queue and the offset."""
        return f"{self.name} {self.group} {self.topic} {self.queue_id} from {self.offset}"

    def make_refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Recognize a closed or unreadable store, for example while a broker shuts down."""
        if answer.code == 1 and answer.remark == "store getMessage return null":
            return errors.StoreClosedError(self.describe(), address, answer.code, answer.remark)
        return errors.make_refusal(self.describe(), address, answer.code, answer.remark)


@dataclass(frozen=True, slots=True)
class CheckFilter(Done):
    """Ask if a broker understands a filter. If it does not, pulls with it return all messages."""

    code: ClassVar[int] = 46
    name: ClassVar[str] = "CHECK_CLIENT_CONFIG"
    group: str
    topic: str
    wanted: Filter

    def list_fields(self) -> dict[str, str]:
        """Leave the header empty; everything is in the body."""
        return {}

    def encode_body(self) -> bytes:
        """Encode the filter as heartbeats do."""
        subscription = self.wanted.to_subscription(self.topic)
        return to_json({"clientId": "", "group": self.group, "subscriptionData": subscription})

    def make_refusal(self, answer: Frame, address: str) -> errors.AnswerError:
        """Make an error about the filter, whatever the code."""
        return errors.SubscriptionError(self.describe(), address, answer.code, answer.remark)
