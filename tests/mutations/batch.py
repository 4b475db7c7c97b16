"""Lists breaks of the rules of batches: what the journal has before and after one, what runs again."""

NOTICED_BY = [
    "tests/unit/spark_jobs/pipeline/batch", "tests/unit/spark_jobs/pipeline/checkpoint",
    "tests/unit/spark_jobs/pipeline/test_skipping.py",
]  # fmt: skip

LOOP, PLANNING = "spark_jobs/pipeline/batch/loop.py", "spark_jobs/pipeline/batch/planning.py"
PLANS, SOURCE = "spark_jobs/pipeline/checkpoint/plans.py", "spark_jobs/source.py"
LANES = "spark_jobs/pipeline/batch/lanes.py"
WATCHING, USERS = "spark_jobs/pipeline/batch/watching.py", "spark_jobs/pipeline/users_part.py"
BEGINS = "spark_jobs/pipeline/checkpoint/begins.py"

MUTATIONS = [
    # A state is in the journal before anything follows from it.
    (
        LOOP,
        "            self._append(state, stop)\n            self.state, ",
        "            self.state, ",
    ),
    # While the journal is away, the batch does not run again.
    (LOOP, "            except (OSError, Py4JError, PySparkException) as error:", "            except ZeroDivisionError as error:"),
    (LOOP, "                self._journal_error = None\n", ""),
    # Users' code cannot end the driver.
    (LOOP, "        except (Exception, SystemExit) as error:", "        except ZeroDivisionError as error:"),
    # Batches that run are committed, although the job must end.
    (LOOP, "return not self._must_end(stop) or any(", "return not self._must_end(stop) and any("),
    # A scheduled run ends only when no lane has anything to read.
    (LOOP, "            due = idle  #", "            pass  #"),
    # Brokers are not asked all the time.
    (LOOP, "        self._plan_at = now + self._pause\n", ""),
    (LOOP, "2 * self._pause if", "0.0 if"),
    (LOOP, "2 * self._pause if state == self.state and not planned else 0.0", "2 * self._pause"),
    # The adopted epoch is the lowest one of all lanes.
    (LOOP, "max(state.epoch, min(epochs))", "max(state.epoch, *epochs)"),
    # The queues of a planned batch are in no other batch, and stay as they are until its commit.
    (LANES, "lane in idle and queue not in busy", "lane in idle"),
    (PLANS, "end.offsets | waiting | kept", "end.offsets | waiting"),
    (PLANS, "end.aside.items() if queue not in kept}", "end.aside.items()}"),
    (PLANS, "journal.read_offsets(state.offsets) | find_busy(state)", "journal.read_offsets(state.offsets)"),
    # Numbers of batches are unique.
    (PLANS, "[state.batch, *(each.number for each in state.planned)]", "[state.batch]"),
    (PLANS, "batch=max(state.batch, batch.number),", "batch=batch.number,"),
    # A request to skip runs alone.
    (PLANNING, "is_requested or (is_request and state.planned)", "is_requested"),
    (PLANNING, "is_requested or (is_request and state.planned)", "is_request and state.planned"),
    # A batch that is cancelled keeps its number, and what it leaves out is read later.
    (LOOP, "        if ended.error is not None and trouble is not None:", "        if False:"),
    (LOOP, "            if trouble.brokers:\n", "            if False:\n"),
    (LOOP, "lane.cancels == MOST_CANCELS", "False"),
    (LOOP, "        lane.cancels = 0\n", "        lane.cancels = MOST_CANCELS\n"),
    (PLANS, "queue.broker not in brokers]", "queue.broker in brokers]"),
    # Only what does not answer is suspected.
    (WATCHING, "            if not is_answered():", "            if True:"),
    (WATCHING, "                if seconds[name] >= EXECUTOR_SECONDS:", "                if True:"),
    (WATCHING, "if each >= least)", "if True)"),
    (WATCHING, "failed = topics.keys() - answered", "failed = addresses.keys() - answered"),
    (WATCHING, "        self._known[broker] = address\n        return True", "        return True"),
    (WATCHING, "address is None or address == self._known.get(broker)", "address is None"),
    (WATCHING, "max(seconds, EXECUTOR_SECONDS)", "EXECUTOR_SECONDS"),
    (WATCHING, "& pulled", ""),
    (WATCHING, "SHARE_OF_AGE * seconds", "0.0"),
    (WATCHING, "        self._asked.clear()", "        pass"),
    (WATCHING, "        for name in self._asked.keys() - names:\n            del self._asked[name]\n", ""),
    (WATCHING, "self._since.get(name, now)", "now"),
    (WATCHING, "max(seconds, BROKER_SECONDS)", "0.0"),
    (WATCHING, "        self._since, self._seconds = {}, {}\n", "        pass\n"),
    # A broker that is only slow is read in the end.
    (LOOP, "self._batches.find_pulled(lane.number) - lane.left_out", "self._batches.find_pulled(lane.number)"),
    # A sink gets fewer rows only if it may.
    (USERS, "self.takes_fewer_rows and not plan.is_request", "self.takes_fewer_rows"),
    (USERS, "self.takes_fewer_rows and not plan.is_request", "not plan.is_request"),
    (USERS, "FEWER_ROWS, False) is True", "FEWER_ROWS, True) is True"),
    (USERS, "return chosen.path is not None\n\n\ndef _name", "return True\n\n\ndef _name"),
    # Several batches may be left for one lane.
    (LANES, "each.number, reverse=True", "each.number"),
    # An epoch is never set back.
    (PLANNING, "max(newest.epoch, state.epoch)", "newest.epoch"),
    # A request to skip counts once, so it waits for all brokers.
    (PLANNING, "needs_all=is_request", "needs_all=False"),
    (PLANNING, "self._skip or state.skip", "self._skip"),
    # A new queue is read only after an entry has its beginning.
    (PLANS, "end.offsets | waiting | kept", "end.offsets | kept"),
    # A scheduled run reads all that was there at the start, and nothing else.
    (PLANNING, "            self._begins.require_read(end.offsets)\n", "            pass\n"),
    (BEGINS, "super()._find_last(require_all(seen))", "super()._find_last(seen)"),
    (SOURCE, "new = self._find_new(at | back, whole, entry.is_begun)", "new = self._find_new(at | back, whole.cut_at(self._last or {}, at), entry.is_begun)"),
]  # fmt: skip
