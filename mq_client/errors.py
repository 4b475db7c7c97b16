"""
All errors of this package. There is a subclass for each way in which a caller may react.

Messages name the peer, the request and a remedy. Attributes contain the same facts.
"""


class MqError(Exception):
    """Base of all errors of this package."""

    def preface(self, text: str) -> None:
        """Put a text in front of the message. The type and the attributes do not change."""
        self.args = (f"{text}: {self}",)


class UsageError(MqError, ValueError):
    """The call is invalid. Nothing was sent."""


class ProtocolError(MqError):
    """The peer's bytes do not follow RocketMQ's protocol. The connection is closed."""


class CorruptMessageError(ProtocolError):
    """A message with a wrong checksum or content. Its queue and offset are known."""

    def __init__(self, complaint: str, topic: str, queue_id: int, offset: int) -> None:
        """Name the message."""
        super().__init__(f"topic {topic!r} queue {queue_id} offset {offset}: {complaint}")
        self.complaint = complaint
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset


class UnavailableError(MqError):
    """The peer cannot be reached now. It may or may not have received the request."""


class ConnectionLostError(UnavailableError):
    """The connection failed, or ended before the answer."""


class DeadlineError(UnavailableError):
    """No answer within the timeout."""


class NoNameServerError(UnavailableError):
    """No name server answered."""


class NoBrokerError(UnavailableError):
    """The route has no address for this broker now."""


class ClosedError(MqError):
    """The client was closed."""


class AnswerError(MqError):
    """The peer refused the request. `code` and `remark` are from its answer."""

    def __init__(self, request: str, address: str, code: int, remark: str | None) -> None:
        """Store request, peer and answer."""
        said = remark.strip().splitlines()[0] if remark and remark.strip() else "no reason given"
        advice = f" ({self.advice})" if self.advice else ""
        super().__init__(f"{request} to {address}: code {code}, {said[:400]}{advice}")
        self.request = request
        self.address = address
        self.code = code
        self.remark = remark

    advice = ""


class UnexpectedError(AnswerError):
    """The peer failed. Only the remark of its answer shows why."""


class BusyError(AnswerError):
    """The broker is overloaded. Try again later."""

    advice = "the broker is overloaded: try again later, or use another broker"


MAY_PASS = (UnavailableError, BusyError)
"""Errors after which a retry, or another broker, may succeed."""


class StoreClosedError(BusyError):
    """The broker's store cannot be read now, for example because the broker is shutting down."""

    advice = "the broker is shutting down, or its store cannot be read: try again later"


class NotPermittedError(AnswerError):
    """Wrong credentials, or no permission to read or write the topic or broker."""

    advice = "check access key, secret key and the topic's perm"


class PermError(NotPermittedError):
    """The perm of the topic or broker lacks READ or WRITE now."""

    advice = (
        "the perm of the topic or broker lacks READ or WRITE now; the broker keeps its messages"
    )


class TopicUnknownError(AnswerError):
    """The peer does not know the topic."""

    advice = "create the topic, or check its name"


class GroupUnknownError(AnswerError):
    """The broker does not know the group. The first pull or heartbeat creates it."""

    advice = "the group has not read from this broker yet"


class GroupEmptyError(AnswerError):
    """No member of the group is connected to this broker."""


class OffsetUnknownError(AnswerError):
    """The group never committed an offset for this queue."""


class SubscriptionError(AnswerError):
    """The filter is invalid, or the broker does not know the group's subscription."""

    advice = "check the filter; SQL92 needs enablePropertyFilter=true on the broker"


class BadParameterError(AnswerError):
    """A value in the request is out of range, or the message is invalid or too large."""


class UnsupportedError(AnswerError):
    """This broker does not know the request."""

    advice = "the broker is too old for this request, or a proxy does not support it"


class PopsOffError(UnsupportedError):
    """The broker cannot keep popped messages."""

    advice = "the broker needs timerWheelEnable=true"


class HandleError(AnswerError):
    """The handle fits no message that this broker could have popped."""

    advice = "acknowledge with the newest handle of the message, at the broker that it names"


_BY_CODE: dict[int, type[AnswerError]] = {
    1: UnexpectedError,
    2: BusyError,
    3: UnsupportedError,
    13: BadParameterError,
    14: BusyError,
    16: NotPermittedError,
    17: TopicUnknownError,
    22: OffsetUnknownError,
    23: SubscriptionError,
    24: SubscriptionError,
    25: SubscriptionError,
    26: GroupUnknownError,
    29: BadParameterError,
    209: BusyError,
}


def make_refusal(request: str, address: str, code: int, remark: str | None) -> AnswerError:
    """Make the error for an answer's code."""
    kind = _BY_CODE.get(code, AnswerError)
    if kind is NotPermittedError and "ing message is forbidden" in (remark or ""):
        kind = PermError
    return kind(request, address, code, remark)
