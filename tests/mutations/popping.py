"""Lists breaks of the rules of members that pop. Each break violates one rule."""

NOTICED_BY = ["tests/unit/follower/popping"]

LOTS, RUNNING, MEMBER, FLIGHT, ORDERED, TIME = (
    "follower/popping/lots.py",
    "follower/popping/running.py",
    "follower/running.py",
    "follower/popping/in_flight.py",
    "follower/popping/ordered.py",
    "follower/popping/invisible_time.py",
)

MUTATIONS = [
    # A member takes few messages in advance, and a fast one more.
    (LOTS, "ahead - self.waiting_messages", "ahead"),
    (LOTS, "if 2 * room >= ahead else 0", "if room > 0 else 0"),
    (LOTS, "self.calls * self.terms.batch + int(self._rate * AHEAD_SECONDS)", "self.calls * self.terms.batch"),
    (LOTS, "self._handled, self._counted_since = 0, now", "self._counted_since = now"),
    (LOTS, "if self.held_bytes >= self.memory_bytes:", "if self.held_bytes < 0:"),
    # A lot is held until it is settled, and it is renewed as long as it is held.
    (LOTS, "            self.held[lot] = None\n", ""),
    (TIME, "RENEW_SHARE * self.seconds", "self.seconds"),
    (LOTS, "if lot.time.renew_at <= now < lot.time.until]", "if lot.time.renew_at <= now]"),
    (LOTS, "            lot.time.renew_again(now)\n", ""),
    (LOTS, "        self.held |= dict.fromkeys(singles)\n", ""),
    # The handler does not begin with messages that others may have got.
    (TIME, "return now >= self.until - (1 - LATEST_SHARE) * self.seconds", "return False"),
    (LOTS, "if self._least is None or difference < self._least:", "if self._least is None:"),
    (LOTS, "return difference - self._least", "return 0.0"),
    (LOTS, "            self._least = difference - most\n", "            pass\n"),
    (RUNNING, "self._lots.take(topic, found, now - age)", "self._lots.take(topic, found, now)"),
    # Each failure doubles the pause, up to a limit.
    (LOTS, "2.0 ** min(message.attempt, 30)", "2.0"),
    (LOTS, "min(LONGEST_BACKOFF, self.terms", "max(0.0, self.terms"),
    # What is handled is acknowledged with its newest handle; nothing else is.
    (RUNNING, "            await asyncio.wait([renewal])\n", "            pass\n"),
    (RUNNING, "each or old for each, old in", "old for each, old in"),
    (RUNNING, "self._acks[key] = again + self._acks[key]", "pass"),
    (RUNNING, "        await self._give_back(lot, self._lots.find_backoff(popped))\n", "        await self._acknowledge(lot)\n"),
    # A message that came too often, or cannot be read, is put aside.
    (RUNNING, "return bool(popped.error) or popped.attempt", "return popped.attempt"),
    (RUNNING, "or popped.attempt >= self._terms.most_attempts", ""),
    (RUNNING, "popped.attempt >= self._terms.most_attempts + UNCALLED", "popped.attempt >= self._terms.most_attempts"),
    (RUNNING, "if attempts >= most:", "if attempts > most:"),
    # After its time, a lot is left alone: others may have got it.
    (RUNNING, "if lot.time.is_over(clock()):", "if clock() < 0:"),
    (LOTS, "[lot for lot in self.waiting if not lot.time.is_over(now)]", "[*self.waiting]"),
    # All pops share the room, and a bug ends no loop.
    (RUNNING, "return max(1, room // len(self._brokers))", "return room"),
    (RUNNING, "            log.exception(\"a bug in the follower; it tries again\")\n", "            raise\n"),
    (RUNNING, "            self._lots.settle(lot, is_handled=False)\n", "            pass\n"),
    # A member that stops gives back what waits, and finishes what runs.
    (RUNNING, "for lot in self._lots.give_back_waiting(clock())", "for lot in ()"),
    (RUNNING, "            if self._is_stopping:\n                await self._give_back(single, 0.0)\n            else:\n", "            if True:\n"),
    (RUNNING, "comes again.\"\"\"\n        self._is_stopping = True\n", "comes again.\"\"\"\n"),
    (RUNNING, "await asyncio.wait([*self._calls], timeout=drain_seconds)", "pass"),
    # A queue that keeps its order is held until its messages are settled, and nothing is lost.
    (FLIGHT, "if place < offset]", "if place <= offset]"),
    (FLIGHT, "bool(self.handles) and self.time.is_late(now)", "False"),
    (FLIGHT, "max(1, min(MOST_POPPED, most_bytes // self.largest))", "MOST_POPPED"),
    (FLIGHT, "        self.next_offset = found[-1].handle.offset + 1\n", ""),
    (FLIGHT, "        self.time.count_from(popped_at)\n", ""),
    (FLIGHT, "self.handles[max(self.handles)]", "self.handles[min(self.handles)]"),
    (FLIGHT, "        self._is_free.clear()\n", ""),
    (ORDERED, "            self._end(flight)\n            raise OverError", "            raise OverError"),
    (ORDERED, "        work.at_end = lambda: self._end(flight)\n", ""),
    (ORDERED, "flight.attempt_id = flight.attempt_id or secrets", "flight.attempt_id = secrets"),
    (ORDERED, "            flight.attempt_id = \"\"\n", ""),
    (ORDERED, "            await flight.wait_until_free()\n            if work", "            if work"),
    (ORDERED, "        work.start(self._keep(flight))\n", ""),
    (ORDERED, "last is None or flight.time.is_over(clock())", "last is None"),
    (ORDERED, "await asyncio.wait([renewal])", "pass"),
    (ORDERED, "            await super().commit(work, found)\n", ""),
    (ORDERED, "        found.sort(key=lambda each: each.handle.offset)\n", ""),
    (ORDERED, "stop = min(least, first)", "stop = first"),
    (ORDERED, "with contextlib.suppress(errors.HandleError):  # the", "with contextlib.suppress(OSError):  # the"),
    (ORDERED, "        flight.settle(done)\n", ""),
    (ORDERED, "return await asyncio.shield(pop)", "return await pop"),
]  # fmt: skip
