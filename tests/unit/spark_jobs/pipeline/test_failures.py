import pytest

from mq_client.errors import NoBrokerError
from spark_jobs.pipeline.failures import (
    HOW_TO_SKIP,
    Cure,
    Failure,
    UsersPartError,
    judge,
    judge_error,
)

FROM_A_WORKER = """Job aborted due to stage failure. SQLSTATE: XXKST
Traceback (most recent call last):
  File "pulling.py", line 1, in pull_batch
    raise
{error}

	at org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:1)
Caused by: java.lang.RuntimeException: more
"""


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        ("mq_client.errors.ConnectionLostError: broker-a is gone", Cure.TIME),
        ("mq_client.errors.NoNameServerError: none of 1 answered", Cure.TIME),
        ("mq_client.errors.BusyError: later", Cure.TIME),
        ("mq_client.errors.NotPermittedError: wrong key", Cure.USER),
        ("mq_client.errors.PermError: the topic[orders] pulling message is forbidden", Cure.TIME),
        ("mq_client.errors.TopicUnknownError: no topic", Cure.TIME),
        ("mq_client.pulling.OffsetGoneError: offsets 1 to 2 are deleted", Cure.USER),
        ("spark_jobs.planning.DataLossError: messages are lost", Cure.USER),
        ("ZeroDivisionError: division by zero", Cure.RETRY),
        ("py4j.protocol.Py4JJavaError: An error occurred", Cure.RETRY),
    ],
)
def test_the_cause_is_found_in_what_spark_says(error: str, cure: Cure) -> None:
    failure = judge(FROM_A_WORKER.format(error=error))
    said = failure.message.removesuffix(HOW_TO_SKIP)
    assert said == (error.rpartition(".")[2] if "." in error.split(":")[0] else error)
    assert failure.cure is cure


@pytest.mark.parametrize("kind", ["pulling.OffsetGoneError", "planning.DataLossError"])
def test_a_loss_says_how_to_pass_over_it(kind: str) -> None:
    error = f"{kind}: offsets 1 to 2 are deleted"
    assert judge(FROM_A_WORKER.format(error=error)).message.endswith("evenkeel.dev/skip")


def test_of_several_causes_the_first_counts() -> None:
    """Later errors are only consequences of the first one."""
    text = FROM_A_WORKER.format(error="ValueError: the cause") + FROM_A_WORKER.format(
        error="mq_client.errors.BusyError: later"
    )
    assert judge(text).message == "ValueError: the cause"


def test_without_a_traceback_the_first_line_tells() -> None:
    failure = judge("[PATH_NOT_FOUND] Path does not exist: /nowhere\nmore")
    assert failure.message == "[PATH_NOT_FOUND] Path does not exist: /nowhere"
    assert failure.cure is Cure.RETRY


def test_the_cause_of_an_error_of_java_is_in_its_second_line() -> None:
    said = (
        "Py4JJavaError: An error occurred while calling o3.save.\n: java.io.IOException: no\n\tat A"
    )
    assert judge(said) == Failure("java.io.IOException: no", Cure.RETRY)


def test_an_error_of_this_process_is_judged_by_its_class() -> None:
    assert judge_error(NoBrokerError("down")) == Failure("NoBrokerError: down", Cure.TIME)
    assert judge_error(UsersPartError("users.py: no")) == Failure("users.py: no", Cure.USER)
    assert judge_error(KeyError("x")).cure is Cure.RETRY
