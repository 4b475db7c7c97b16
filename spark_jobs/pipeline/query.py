"""Runs a job's streaming query, whose rows are plans; each batch of the query runs one plan."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from contract.job_file import JobFile
from contract.kinds.jobs import Mode
from spark_jobs.pipeline import plan_source
from spark_jobs.pipeline.failures import Cure, Failure, judge
from spark_jobs.pipeline.files import FilesMissingError
from spark_jobs.pipeline.users_part import UsersPartError

RunBatch = Callable[[Path, int], None]
"""Runs one batch; takes the folder with the batch's plan, and the batch's number."""


class PlanQuery:
    """A query that was started. Its source and its driver exchange files in the folder."""

    def __init__(
        self, spark: SparkSession, job: JobFile, folder: Path, run_batch: RunBatch
    ) -> None:
        """Start the query."""
        self.folder = folder
        self._run_batch = run_batch
        self._batch_error: BaseException | None = None
        self._query = self._start(spark, job)

    def _start(self, spark: SparkSession, job: JobFile) -> StreamingQuery:
        plans = (
            spark.readStream.format(plan_source.FORMAT)
            .options(**job.source, assignments=job.assignments)
            .options(run=str(self.folder), skip=job.skip)
            .load()
        )
        writer = plans.writeStream.foreachBatch(lambda _, number: self._batch(number))
        writer = writer.option("checkpointLocation", job.checkpoint)
        if job.mode is Mode.SCHEDULED:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{job.trigger_seconds} seconds").start()

    def _batch(self, number: int) -> None:
        try:
            self._run_batch(self.folder, number)
        except BaseException as error:
            self._batch_error = error  # Spark would only keep its text
            raise

    @property
    def is_active(self) -> bool:
        """Whether the query has not ended."""
        return self._query.isActive

    @property
    def is_busy(self) -> bool:
        """Whether the query plans or runs a batch now."""
        return bool(self._query.status["isTriggerActive"])

    def find_committed_batch(self) -> int | None:
        """Return the number of the last batch that Spark has committed, if progress shows one."""
        progress = self._query.lastProgress
        if progress is None:
            return None
        has_run = "addBatch" in progress["durationMs"]
        number: int = progress["batchId"]
        return number if has_run else number - 1

    def let_no_batch_begin(self) -> None:
        """Plan no more: the batch that runs is the last one."""
        (self.folder / plan_source.STOPPING).touch()

    def stop(self) -> None:
        """End the query, and the batch that runs, if any."""
        self._query.stop()

    def find_failure(self) -> Failure | None:
        """Return what went wrong, after the query has ended."""
        error = self._batch_error
        if error is None:
            reported = self._query.exception()
            return None if reported is None else judge(str(reported))
        if isinstance(error, (UsersPartError, FilesMissingError)):
            return Failure(str(error), Cure.USER, is_in_batch=True)
        return replace(judge(f"{type(error).__name__}: {error}"), is_in_batch=True)
