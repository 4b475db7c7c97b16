"""
All errors of this package. A subclass stands for each decision that a caller can take.

Every message names the peer, the request and what can be done. Facts are attributes too.
"""


class MqError(Exception):
    """Base of all errors of this package."""

    def preface(self, text: str) -> None:
        """Say more in front of the message; kind and attributes stay."""
        self.args = (f"{text}: {self}",)


class UsageError(MqError, ValueError):
    """The caller asked for what cannot be: nothing was sent."""


class ProtocolError(MqError):
    """Bytes that are no RocketMQ: the connection is dropped, nothing is guessed."""


class CorruptMessageError(ProtocolError):
    """A message whose checksum or content is wrong. The place in the topic is known."""

    def __init__(self, complaint: str, topic: str, queue_id: int, offset: int) -> None:
        """Name the message."""
        super().__init__(f"topic {topic!r} queue {queue_id} offset {offset}: {complaint}")
        self.complaint = complaint
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset


class UnavailableError(MqError):
    """The peer cannot be reached now, and may or may not have seen the request."""


class ConnectionLostError(UnavailableError):
    """The connection cannot be made, or ended before the answer came."""


class DeadlineError(UnavailableError):
    """No answer came in time."""


class NoNameServerError(UnavailableError):
    """None of the name servers answered."""


class NoBrokerError(UnavailableError):
    """The route names no address for this broker now."""


class ClosedError(MqError):
    """The client was closed."""


class AnswerError(MqError):
    """The peer understood and said no. `code` and `remark` are its own."""

    def __init__(self, request: str, address: str, code: int, remark: str | None) -> None:
        """Name request, peer and answer."""
        said = remark.strip().splitlines()[0] if remark and remark.strip() else "no reason given"
        advice = f" ({self.advice})" if self.advice else ""
        super().__init__(f"{request} to {address}: code {code}, {said[:400]}{advice}")
        self.request = request
        self.address = address
        self.code = code
        self.remark = remark

    advice = ""


class UnexpectedError(AnswerError):
    """The peer failed in a way of its own; the remark is all there is to know."""


class BusyError(AnswerError):
    """The broker sheds load. Trying again a little later helps."""

    advice = "the broker is overloaded: try again later, or send to another one"


class StoreClosedError(BusyError):
    """The broker's store cannot be read now, as while it ends."""

    advice = "the broker is ending, or its store cannot be read: try again later"


class NotPermittedError(AnswerError):
    """Wrong credentials, or a topic or broker that may not be read or written."""

    advice = "check access key, secret key and the topic's perm"


class PermError(NotPermittedError):
    """The topic or the broker may not be read, or written, now: its perm lacks READ or WRITE."""

    advice = "the perm of the topic or broker lacks READ or WRITE now; what it holds is kept"


class TopicUnknownError(AnswerError):
    """No such topic there."""

    advice = "create the topic, or check its name"


class GroupUnknownError(AnswerError):
    """The broker does not know the group; it is made by a first pull or heartbeat."""

    advice = "the group has not read from this broker yet"


class GroupEmptyError(AnswerError):
    """No member of the group is connected to this broker."""


class OffsetUnknownError(AnswerError):
    """The group never committed an offset for this queue."""


class SubscriptionError(AnswerError):
    """The filter does not parse, or the broker does not know the group's subscription."""

    advice = "check the filter; SQL92 needs enablePropertyFilter=true on the broker"


class BadParameterError(AnswerError):
    """A value in the request is out of its range, or the message is illegal or too big."""


class UnsupportedError(AnswerError):
    """This broker does not know the request."""

    advice = "the broker is too old for it, or a proxy does not pass it on"


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
}


def refusal(request: str, address: str, code: int, remark: str | None) -> AnswerError:
    """Make the error that belongs to an answer's code."""
    kind = _BY_CODE.get(code, AnswerError)
    if kind is NotPermittedError and "ing message is forbidden" in (remark or ""):
        kind = PermError
    return kind(request, address, code, remark)
