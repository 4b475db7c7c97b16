"""
Writes the rows of one batch to the user's sink and dead letters.

A transform may give another result when it runs a second time, for example because a service that
it calls fails once. So if the rows go to two sinks, the transform runs once, and Spark keeps only
the result, not the way to compute it again. If an executor is lost with a part of the result, the
whole batch fails and runs again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it

from spark_jobs.pipeline.batch.files import Files
from spark_jobs.pipeline.checkpoint.plans import BatchName
from spark_jobs.pipeline.failures import FilesMissingError, UsersPartError
from spark_jobs.pipeline.users_part import UsersPart
from spark_jobs.schema import ERROR_COLUMN


@dataclass(frozen=True, slots=True)
class BatchWriter:
    """Writes one batch."""

    users: UsersPart
    name: BatchName
    unreadable: Callable[[], DataFrame | None]
    """Called after all rows are pulled; returns unreadable messages for the dead letters."""
    replaces_all: bool = False
    """
    Whether an earlier attempt may have written dead letters that this one has not. So without dead
    letters their folder is removed.
    """

    def write(self, rows: DataFrame) -> None:
        """Transform the rows, and write them."""
        transformed = self.users.transform(rows)
        if ERROR_COLUMN in transformed.columns:
            self._write_divided(transformed)
            return
        if not self.users.is_once:
            transformed.persist()
        try:
            self.users.write(transformed, self.name)
            self._write_dead_letters(transformed.sparkSession, None)
        finally:
            transformed.unpersist()

    def _write_divided(self, transformed: DataFrame) -> None:
        if self.users.write_dead_letters is None:
            raise UsersPartError(
                f"the transform sets {ERROR_COLUMN}, and the job has no deadLetter for such rows"
            )
        kept = transformed.localCheckpoint(eager=True)
        try:
            is_good = F.col(ERROR_COLUMN).isNull()
            good, bad = kept.where(is_good).drop(ERROR_COLUMN), kept.where(~is_good)
            self.users.write(good, self.name)
            self._write_dead_letters(kept.sparkSession, bad)
        finally:
            _free(kept)

    def _write_dead_letters(self, spark: SparkSession, bad: DataFrame | None) -> None:
        write = self.users.write_dead_letters
        if write is None:
            return
        dead = _join(bad, self.unreadable())
        if dead is None:
            if self.replaces_all and isinstance(write, Files):
                write.remove(spark, self.name)
            return
        before = self._list_files(spark)
        write(dead, self.name)
        if gone := before - self._list_files(spark):
            raise FilesMissingError(
                f"batch {self.name.number}: the dead letters have replaced {len(gone)} files of "
                "the sink. Both paths lead to the same folder: change deadLetter.path"
            )

    def _list_files(self, spark: SparkSession) -> frozenset[str]:
        """List the files of the sink, if it writes files."""
        if not isinstance(self.users.write, Files):
            return frozenset()
        return self.users.write.list_files(spark, self.name)


def _join(bad: DataFrame | None, unreadable: DataFrame | None) -> DataFrame | None:
    """Unite two DataFrames by column names; a column whose type differs gets another name."""
    if bad is None or unreadable is None:
        return unreadable if bad is None else bad
    kinds = {name.lower(): kind for name, kind in bad.dtypes}
    for name, kind in unreadable.dtypes:
        if kinds.get(name, kind) != kind:
            unreadable = unreadable.withColumnRenamed(name, f"_{name}")
    return bad.unionByName(unreadable, allowMissingColumns=True)


def _free(kept: DataFrame) -> None:
    """Free the kept rows at once; Spark would wait until the driver collects garbage."""
    plan: Any = kept._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)
