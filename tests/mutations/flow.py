"""Lists breaks of a flow's rules: who may commit, when a commit is visible, what is dropped."""

NOTICED_BY = ["tests/unit/spark_jobs/pipeline/flow", "tests/unit/spark_jobs/pipeline/checkpoint"]

COMMITS, SERVING = "spark_jobs/pipeline/flow/commits.py", "spark_jobs/pipeline/flow/serving.py"
ROWS, TASK = "spark_jobs/pipeline/flow/rows.py", "spark_jobs/pipeline/flow/task_rows.py"
SINKS = "spark_jobs/pipeline/flow/task_sinks.py"
POPPED = "spark_jobs/pipeline/flow/popped_rows.py"
LINK, FOLDERS = "spark_jobs/pipeline/flow/link.py", "spark_jobs/pipeline/flow/sinks/folders.py"
LOCAL = "spark_jobs/pipeline/flow/sinks/local_files.py"
CALLS, TABLES = "spark_jobs/pipeline/flow/calls.py", "spark_jobs/pipeline/flow/sinks/tables.py"
JOURNAL = "spark_jobs/pipeline/checkpoint/journal.py"
DELTA = "spark_jobs/pipeline/flow/sinks/delta.py"
FITTING = "spark_jobs/pipeline/flow/sinks/fitting.py"
DUCKDB = "spark_jobs/pipeline/flow/duckdb_query.py"
ICEBERG = "spark_jobs/pipeline/flow/sinks/iceberg.py"
SEPARATE, CHOOSING = (
    "spark_jobs/pipeline/flow/sinks/separate.py",
    "spark_jobs/pipeline/flow/sinks/choosing.py",
)
BEGINNING = "spark_jobs/pipeline/flow/beginning.py"
OPENING, SPARKS_LOGS = (
    "spark_jobs/pipeline/checkpoint/opening.py",
    "spark_jobs/pipeline/checkpoint/sparks_logs.py",
)

MUTATIONS = [
    # A commit counts only if its session is live and holds the queues, and if each range begins
    # where the last commit of its queue ended.
    (COMMITS, "if session is None or session.id != asked.session:", "if session is None:"),
    (
        COMMITS,
        "part.queue in held and self.ends.get(part.queue) == part.start",
        "self.ends.get(part.queue) == part.start",
    ),
    (
        COMMITS,
        "part.queue in held and self.ends.get(part.queue) == part.start",
        "part.queue in held",
    ),
    (COMMITS, "session.grants | session.leaving.keys()", "session.grants"),
    # A commit that arrives twice counts once, as long as its session lasts.
    (COMMITS, "self._last.get(asked.session, 0) >= asked.number", "False"),
    (COMMITS, "if session in live}", "if session}"),
    (COMMITS, "self.ends = dict(begins) | self.ends", "self.ends = self.ends | dict(begins)"),
    # A driver takes the journal before it deletes what another one has not committed.
    (OPENING, "        self.journal.append(state)\n", ""),
    (JOURNAL, "default=number) > number:", "default=number) > 10**9:"),
    (JOURNAL, "self._writer = uuid.uuid4().hex", 'self._writer = ""'),
    (FOLDERS, "int(name) < self.term", "True"),
    # Tasks learn of a commit only when it is in the journal. Only then do readers see its folders.
    (SERVING, "            await self._persist(state)\n", ""),
    (
        SERVING,
        "steps: list[Callable[[], None]] = [partial(self._journal.append, state)]",
        "steps: list[Callable[[], None]] = []",
    ),
    (
        SERVING,
        "        steps += [partial(folders.move, each, self._sinks.folders) for each in state.pending]\n",
        "",
    ),
    (
        SERVING,
        "if unsettled is not None and unsettled.number == asked.number:",
        "if False:",
    ),
    (SERVING, "unsettled is not None or not self._commits.accept", "not self._commits.accept"),
    (
        SERVING,
        "except (OSError, Py4JError) as error:\n                text",
        "except Py4JError as error:\n                text",
    ),
    # The driver serves only the newest task of each slot. The task must belong to this job and run
    # on the slot's executor.
    (
        SERVING,
        "not hmac.compare_digest(\n            hello.secret.encode(), self._secret.encode()\n        )",
        "False",
    ),
    (
        SERVING,
        "        if self._expected.get(hello.slot) != hello.executor:\n",
        "        if False:\n",
    ),
    (SERVING, "            if expected.get(slot) != peer.executor:\n", "            if False:\n"),
    (SERVING, "if self._peers.get(peer.slot) is not peer:  #", "if False:  #"),
    (
        SERVING,
        "            self._group.end(peer.slot, None, time.monotonic())\n            self._turn()\n",
        "            self._turn()\n",
    ),
    # A problem is shown until its queue is read past the offset of the problem. A fatal one ends
    # the job.
    (SERVING, "return self.ends.get(key, 0) <= offset", "return False"),
    (
        SERVING,
        '                self._failed.set_exception(LossRefusedError(f"{found.text}{HOW_TO_SKIP}"))',
        "                pass",
    ),
    (
        SERVING,
        "                self._failed.set_exception(LossFoundError(found.text))",
        "                pass",
    ),
    (SERVING, "not counted.leaving_queues + counted.waiting_queues", "not counted.waiting_queues"),
    # A task keeps rows in the order of their offsets, and drops them only after a commit.
    (ROWS, "        if begin != self.handled or self.is_outdated:\n            return False\n", ""),
    (ROWS, "if piece.stop > stop]", "if piece.stop < 0]"),
    (ROWS, "pc.invert(is_good)", "is_good"),
    (
        ROWS,
        "return self.is_live() and not self.is_outdated and self.handled",
        "return not self.is_outdated and self.handled",
    ),
    (TASK, "end = min(offset, held.handled)", "end = offset"),
    (
        SINKS,
        "                await asyncio.to_thread(folders.drop, each, self._folders)\n",
        "                pass\n",
    ),
    (TASK, "        work.stored = letter.stop\n", ""),
    (TASK, "> MOST_BYTES:", "> 10**12:"),
    # A sink with positions decides where a queue begins, and refused rows hold up no other rows.
    (TASK, "if stored is None or stored <= begin:", "if stored is None:"),
    (TASK, "            return stored\n", "            return begin\n"),
    (
        SINKS,
        "        await self._settle(session, [found], Written(), CommitFigures())\n",
        "",
    ),
    (
        TASK,
        "                self._drop(cuts)\n            except RowsRefusedError",
        "                pass\n            except RowsRefusedError",
    ),
    (TASK, "            self._careful_below[queue] = below\n", ""),
    (TASK, "max(self._careful_below.get(queue, 0), held.handled)", "0"),
    (
        TASK,
        "            self._run_on_loop(self._deliver_or_drop(step.queue, held))\n",
        "            pass\n",
    ),
    (TASK, "except (MovedOnError, CommitRefusedError) as error:", "except MovedOnError as error:"),
    (TABLES, "            table = self._create(added.schema)\n", "            pass\n"),
    (TABLES, "            if found != step.begin:\n", "            if False:\n"),
    (DELTA, "            if _INVALID not in str(error) and ", "            if True or "),
    (ICEBERG, "(*change._requirements, same_table)", "(same_table,)"),
    (TABLES, "        if not self._has_positions:\n", "        if False:\n"),
    (FITTING, " and (given.tz is None) == (wanted.tz is None)", ""),
    (FITTING, "            if each.name not in fields:\n", "            if False:\n"),
    (SEPARATE, "            self._sent_dead += new\n", "            pass\n"),
    (DUCKDB, """    database.execute("SET GLOBAL TimeZone = 'UTC'")""", "    pass"),
    (TASK, "        return not self._is_careful(queue, held.committed)\n", "        return True\n"),
    (TASK, "                held.take_back()\n", "                pass\n"),
    (SINKS, "            if not self._is_failing:\n", "            if True:\n"),
    (ROWS, "self.committed = self.stored = stop", "self.committed = stop"),
    (
        SEPARATE,
        "found = Written(self._rows.write(delivery, rows), written)",
        "found = Written(written, self._rows.write(delivery, rows))",
    ),
    (CHOOSING, "    if ours != theirs:\n", "    if False:\n"),
    # Only a few calls run at the same time, but a long call does not hold up other calls.
    (CALLS, "< MOST_CALLS", "< 10**6"),
    (CALLS, "                self._count_no_longer(each)\n", "                pass\n"),
    (CALLS, " and not each.is_reported", ""),
    (
        CALLS,
        "                self._count_no_longer(running)\n                return",
        "                return",
    ),
    (CALLS, "            self._running.remove(running)\n", ""),
    (SINKS, "        self._delay = 0.0\n        await", "        await"),
    # Popped messages are acknowledged after the commit of their rows, and only in its session.
    (POPPED, "        call.ended.result()\n", ""),
    (POPPED, "for each in calls if each.session == session]", "for each in calls]"),
    (
        POPPED,
        "                await self._commit([each])\n",
        "                _end([each], error)\n",
    ),
    (POPPED, "            _give_back(current, str(error))\n", "            _end(current, None)\n"),
    (POPPED, "        self._is_hurried.set()\n", "        pass\n"),
    (SERVING, " or self._source.messages is not None", ""),
    (SERVING, "                self._troubles.pop(each.slot, None)\n", "                pass\n"),
    (BEGINNING, "            ends = {}  # the positions", "            pass  # the positions"),
    # A task repeats a message without an answer, and ignores answers to other tasks of its slot.
    (LINK, "secrets.randbits(48)", "1"),
    (LINK, "            self._untold[queue] = trouble\n", "            pass\n"),
    (LINK, "in self._untold.values():\n", "in ():\n"),
    (
        LINK,
        "        for message, _ in self._calls.values():\n            self._send(message)\n",
        "",
    ),
    # Lost messages are skipped once, and messages that batches have read are not read again.
    (SERVING, "self._lost_below.get(message.queue, 0)", "0"),
    (
        SERVING,
        "                self._state, epoch=",
        "                CheckpointState('q', '', 0, 0, {}), epoch=",
    ),
    (
        BEGINNING,
        "        folders.finish_moves(state.pending, known)\n",
        "",
    ),
    (BEGINNING, "each.delete(planned.number)", "each.delete(batch)"),
    (BEGINNING, "batch = max(batch, planned.number)", "batch = planned.number"),
    (BEGINNING, "            seen = require_masters(require_all(seen))\n", "            pass\n"),
    (BEGINNING, "if self.reading.reads(queue.topic)}", "}"),
    (BEGINNING, "skip=self.skip if is_request else state.skip", "skip=state.skip"),
    (BEGINNING, "if not is_request and not skipped.lines:", "if False:"),
    (BEGINNING, "offsets.read_offsets(state.aside) | ", ""),
    (SPARKS_LOGS, "default=0)", "default=-1)"),
    (SPARKS_LOGS, '        journal.move(name, f"{ASIDE}/{journal.number}")\n', "        pass\n"),
    (SPARKS_LOGS, "skip=position.skip, ", ""),
    (SPARKS_LOGS, "if number + 1 not in planned:", "if True:"),
    (SPARKS_LOGS, "batch=number + 1)", "batch=number)"),
    (SERVING, "if self._state.pending and not self._unsettled:", "if self._state.pending:"),
    (LOCAL, "            if error.errno != errno.ENOTEMPTY:\n", "            if True:\n"),
    (
        FOLDERS,
        "        if not _find_files(pending.place, known).exists(pending.place):\n",
        "        if True:\n",
    ),
    (
        FOLDERS,
        '                        self.files.delete(f"{self._hidden}/{name}")\n',
        "                        pass\n",
    ),
]
