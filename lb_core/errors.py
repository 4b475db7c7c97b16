"""
The errors of `lb_core`.

The class name without `Error` is the `kind` in answers of `python -m lb_core`. A message names the
object first, and then what is wrong with it.
"""


class AllocationError(Exception):
    """Base of all errors of this package."""

    @property
    def kind(self) -> str:
        """The error's name as other programs see it."""
        return type(self).__name__.removesuffix("Error")


class BadRequestError(AllocationError):
    """A value has the wrong type or shape, or is out of its range."""


class UnknownStrategyError(AllocationError):
    """No strategy is registered under this name."""


class DuplicateConsumerError(AllocationError):
    """Two members have the same id. RocketMQ's strategies would leave queues without an owner."""


class DuplicateQueueError(AllocationError):
    """The same topic, broker and id was listed twice."""


class UnknownQueueError(AllocationError):
    """The request refers to a queue that it does not list."""


class BadWeightError(AllocationError):
    """A weight is not a number from 0 to 1e200."""


class BadCapacityError(AllocationError):
    """A capacity is neither 0 nor a number from 1e-6 to 1e6."""


class NoWritableQueueError(AllocationError):
    """There is no queue that a producer can send to."""


class InvalidPlanError(AllocationError):
    """Base of the errors about a computed plan. Such an error is a bug in a strategy."""


class QueueOwnedTwiceError(InvalidPlanError):
    """Two consumers would read one queue."""


class QueueLostError(InvalidPlanError):
    """A queue has no owner, and is not listed as unowned either."""


class ForeignQueueError(InvalidPlanError):
    """A strategy handed out a queue that does not exist."""


class ForeignConsumerError(InvalidPlanError):
    """A strategy named a consumer that may not own this queue, or that does not exist."""


class StrategyFailedError(AllocationError):
    """A strategy raised an error, or did not return an assignment."""


class IllegalArgumentException(AllocationError):  # noqa: N818 - RocketMQ's name, part of the contract
    """RocketMQ's class raises this exception in the same case, with the same message."""


class NullPointerException(AllocationError):  # noqa: N818 - RocketMQ's name, part of the contract
    """Raised when RocketMQ's class would dereference null."""
