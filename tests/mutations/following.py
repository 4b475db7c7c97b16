"""Lists breaks of the rules of coordinator and follower. Each break violates one rule."""

NOTICED_BY = [
    "tests/unit/coordinator", "tests/unit/follower/test_core.py",
    "tests/unit/follower/test_positions.py", "tests/unit/follower/test_handling.py",
    "tests/unit/follower/test_processes.py", "tests/simulation",
]  # fmt: skip

GROUP, CORE = "coordinator/group.py", "follower/core.py"
READING, LEASE = "follower/reading.py", "follower/lease.py"
POSITIONS, HANDLING = "follower/positions.py", "follower/handling.py"
PROCESSES, CALLING = "follower/processes.py", "follower/calling.py"
MAIN = "follower/process_main.py"

MUTATIONS = [
    # A request releases a queue only if it shows that its member knows of the withdrawal and no
    # longer holds the queue.
    (GROUP, "if revoked.revision <= asked.revision and queue not in asked.holds", "if queue not in asked.holds"),
    (GROUP, "if revoked.revision <= asked.revision and queue not in asked.holds", "if revoked.revision <= asked.revision"),
    # A request that a newer one has overtaken is ignored.
    (GROUP, "if asked.number <= session.number:", "if asked.number < 0:"),
    (GROUP, "if session.id != asked.session:", "if not session.id:"),
    # A new leader waits until it knows all live members, and then accepts no unknown one.
    (GROUP, "        if not self._is_settled:\n            return\n", ""),
    (GROUP, "(self._is_settled and not is_new)", "False"),
    # A session lasts as long as the coordinator has promised to the member.
    (GROUP, "now >= oldest.heard_at + self._terms.session", "now >= oldest.heard_at + self._terms.session / 2"),
    # A queue is lent only while its owner has no session, and is returned afterwards.
    (GROUP, "if owner is None or owner in self._sessions:", "if owner is None:"),
    (GROUP, "for each in holders - {reader}:", "for each in set():"),
    # An older assignment is ignored.
    (GROUP, "if epoch < self._epoch:", "if epoch < 0:"),
    # For a member, a session begins when it sends the request, and ends earlier by a margin.
    (LEASE, "end = sent_at + seconds * (1 - MARGIN)", "end = sent_at + seconds * 1.3"),
    (CORE, "self._lease.renew(self._sent_at, terms.session)", "self._lease.renew(now, terms.session)"),
    # Only the answer to the newest request counts.
    (CORE, "if asked is not self._asked:  #", "if self._asked is None:  #"),
    # The holder of a queue repeats its commit from time to time, because a late commit of an
    # earlier holder can have set the offset back.
    (CORE, "reading.commit(is_again)", "reading.commit()"),
    (CORE, "is_again = is_due and self.has_session(now)", "is_again = is_due"),
    (CORE, "reading.leave(now + terms.drain, is_again=True)", "reading.leave(now + terms.drain, is_again=False)"),
    (CORE, "reading.leave(now + drain_seconds, self.has_session(now))", "reading.leave(now + drain_seconds, True)"),
    # When the session is over, the member drops all queues.
    (CORE, "if self.may_act(now):\n            return []", "if now >= 0:\n            return []"),
    # A follower whose commit gets no answer does not call the handler again; a flow does.
    (READING, "self.pace.calls_during_commit or not self.is_committing", "True"),
    (READING, "self.commit() if self.pace.is_at_once else []", "[]"),
    (READING, "self.commit() if self.pace.is_at_once else []", "self.commit()"),
    (READING, "self.is_dirty or (is_again and not self.pace.is_at_once)", "self.is_dirty or is_again"),
    (READING, "self.pace.calls_during_commit or not self.is_committing", "not self.is_committing"),
    # Work in flight is finished and committed before a queue is released.
    (READING, "return not (self.is_handling or self.is_committing or self.is_dirty)", "return True"),
    # A result from an earlier grant of the queue is ignored.
    (CORE, "if reading is not None and reading.life == life:", "if reading is not None:"),
    # A handler that never returns is abandoned.
    (CORE, "if reading.leave_by is not None and now >= reading.leave_by:", "if reading.leave_by is not None and now < 0:"),
    # An answer that arrives after the session's end grants nothing, whatever `onOutage` says.
    (CORE, "if not self.has_session(now):  #", "if not self.may_act(now):  #"),
    # A member that stops takes no queue.
    (CORE, "frozenset() if self._is_stopping else grants.queues", "grants.queues"),
    # If another process has moved the position of a queue, the member reads the queue from the new
    # position, unless it must release the queue.
    (CORE, "                found.append(self._take(queue))", "                pass"),
    (CORE, "            if reading.is_leaving:\n                self._ask_at = now\n            else:\n", "            if True:\n"),
    # A late transaction changes nothing. A position is stored together with the data or not at all.
    (POSITIONS, " AND next_offset = ?\n\"\"\"", " AND next_offset <> ? + 1\n\"\"\""),
    (POSITIONS, "if self.cursor.rowcount != 1:", "if self.cursor.rowcount > 1:"),
    (POSITIONS, "if found is not None:\n                raise", "if found is False:\n                raise"),
    (POSITIONS, "            transaction.refuse_autocommit()\n", ""),
    (POSITIONS, "if positions.read(step.group, step.queue) != step.end:", "if not step.end:"),
    (HANDLING, "                work.stored = piece.stop\n", "                pass\n"),
    (HANDLING, "if isinstance(error, MovedOnError):", "if isinstance(error, SystemError):"),
    # A handler in its process cannot stop anything else, and no process outlives its grant.
    (PROCESSES, "await asyncio.wait([reading, self._ended],", "await asyncio.wait([reading],"),
    (PROCESSES, "await process.call(arguments) if holding.may_act() else None", "await process.call(arguments)"),
    (PROCESSES, "        except BaseException:\n            self.kill()\n", "        except BaseException:\n"),
    (PROCESSES, "if self._ended is None or self._ended.done():", "if self._ended is None:"),
    (MAIN, "    end_with_parent(parent)\n", ""),
    (MAIN, "                end_if_forked(process)\n", ""),
    (CALLING, "    if os.getpid() != parent:\n", "    if os.getpid() < 0:\n"),
]  # fmt: skip
