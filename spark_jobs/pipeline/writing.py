"""
How the rows of one batch reach the user's sink and dead letters.

A transform need not say the same twice: a service that it asks may fail once. So where its rows go
two ways, it runs once, and what it made is kept without the way to make it again. If an executor is
lost with a part of that, the batch fails and runs again, in all of its parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody writes it

from spark_jobs.pipeline.files import Files, NotThereError
from spark_jobs.pipeline.users_part import UsersPart, UsersPartError
from spark_jobs.schema import ERROR_COLUMN


@dataclass(frozen=True, slots=True)
class Writing:
    """One batch of a query."""

    users: UsersPart
    query: str
    number: int
    unreadable: Callable[[], DataFrame | None]
    """Called when all was pulled: messages for the dead letters, that no transform sees."""

    def write(self, rows: DataFrame) -> None:
        """Transform the rows, and write them."""
        made = self.users.transform(rows)
        if ERROR_COLUMN in made.columns:
            self._write_parted(made)
            return
        if not self.users.is_once:
            made.persist()
        try:
            self.users.write(made, self.query, self.number)
            self._bury(made.sparkSession, None)
        finally:
            made.unpersist()

    def _write_parted(self, made: DataFrame) -> None:
        if self.users.bury is None:
            raise UsersPartError(
                f"the transform sets {ERROR_COLUMN}, and the job has no deadLetter for such rows"
            )
        kept = made.localCheckpoint(eager=True)
        try:
            is_good = F.col(ERROR_COLUMN).isNull()
            good, bad = kept.where(is_good).drop(ERROR_COLUMN), kept.where(~is_good)
            self.users.write(good, self.query, self.number)
            self._bury(kept.sparkSession, bad)
        finally:
            _forget(kept)

    def _bury(self, spark: SparkSession, bad: DataFrame | None) -> None:
        dead = _joined(bad, self.unreadable())
        if dead is None or self.users.bury is None:
            return
        before = self._files(spark)
        self.users.bury(dead, self.query, self.number)
        if gone := before - self._files(spark):
            raise NotThereError(
                f"batch {self.number}: the dead letters have replaced {len(gone)} files of the "
                "sink. Their paths lead to the same place: give deadLetter.path another one"
            )

    def _files(self, spark: SparkSession) -> frozenset[str]:
        """List what the sink has written, if that is files."""
        if not isinstance(self.users.write, Files):
            return frozenset()
        return self.users.write.seen(spark, self.query, self.number)


def _joined(bad: DataFrame | None, unreadable: DataFrame | None) -> DataFrame | None:
    """Join both by the names of columns; where the types of one differ, it gets a name apart."""
    if bad is None or unreadable is None:
        return unreadable if bad is None else bad
    kinds = {name.lower(): kind for name, kind in bad.dtypes}
    for name, kind in unreadable.dtypes:
        if kinds.get(name, kind) != kind:
            unreadable = unreadable.withColumnRenamed(name, f"_{name}")
    return bad.unionByName(unreadable, allowMissingColumns=True)


def _forget(kept: DataFrame) -> None:
    """Free what executors keep at once; Spark would wait for its driver to collect garbage."""
    plan: Any = kept._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)
