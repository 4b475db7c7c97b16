"""Lists breaks of the rules of batches: what the journal has before and after one, what runs again."""

NOTICED_BY = [
    "tests/unit/spark_jobs/pipeline/batch", "tests/unit/spark_jobs/pipeline/checkpoint",
    "tests/unit/spark_jobs/pipeline/test_skipping.py",
]  # fmt: skip

LOOP, PLANNING = "spark_jobs/pipeline/batch/loop.py", "spark_jobs/pipeline/batch/planning.py"
PLANS, SOURCE = "spark_jobs/pipeline/checkpoint/plans.py", "spark_jobs/source.py"
BEGINS = "spark_jobs/pipeline/checkpoint/begins.py"

MUTATIONS = [
    # A plan is in the journal before its batch runs, and the commit after that.
    (
        LOOP,
        "            self._append(state, stop)\n            self._take(state)\n        for",
        "            self._take(state)\n        for",
    ),
    (
        LOOP,
        "            self._append(state, stop)\n            self._take(state)\n            self._b",
        "            self._take(state)\n            self._b",
    ),
    # While the journal is away, the batch does not run again.
    (LOOP, "            except (OSError, Py4JError, PySparkException) as error:", "            except ZeroDivisionError as error:"),
    (LOOP, "                self._retries.error = error_before\n", ""),
    # Users' code cannot end the driver.
    (LOOP, "except (Exception, SystemExit) as error:", "except Exception as error:"),
    # A planned batch runs as it was planned, whatever has changed since.
    (LOOP, "        if not self.state.planned:\n", "        if True:\n"),
    # An epoch is never set back.
    (PLANNING, "max(self._followed.newest.epoch, state.epoch)", "self._followed.newest.epoch"),
    # A request to skip counts once, so it waits for all brokers.
    (PLANNING, "needs_all=is_request", "needs_all=False"),
    (PLANNING, "self._skip or state.skip", "self._skip"),
    # A new queue is read only after an entry has its beginning.
    (PLANS, "end.offsets | waiting", "end.offsets"),
    (PLANS, "state.batch + 1, epoch", "state.batch, epoch"),
    # A scheduled run reads all that was there at the start, and nothing else.
    (PLANNING, "            self._begins.require_read(end.offsets)\n", "            pass\n"),
    (BEGINS, "super()._find_last(require_all(seen))", "super()._find_last(seen)"),
    (SOURCE, "new = self._find_new(at | back, whole, entry.is_begun)", "new = self._find_new(at | back, whole.cut_at(self._last or {}, at), entry.is_begun)"),
]  # fmt: skip
