"""Guarded processes, their folder and their ports, with small programs instead of real servers."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from multiprocessing import synchronize
from multiprocessing.queues import Queue
from pathlib import Path

import pytest

from sandbox import ports, process
from tests.ending import ends

ROOT = Path(__file__).parents[3]
SLEEPER = "import time; print('up', flush=True); time.sleep(60)"
PATIENCE_SECONDS = 20.0

# Starts a sleeping process, prints its pid and the folder, and waits until it is ended.
CALLER = """
import os, sys, time
from sandbox import process
{before}
with process.make_folder("evenkeel-test-") as place:
    sleeper = process.ChildProcess("sleeper", [sys.executable, "-c", {sleeper!r}], place, {{}})
    sleeper.wait_until(lambda: sleeper.has_said("up"), 20)
    {then}
    print(sleeper.pid, place.path, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[process.Folder]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with process.make_folder("evenkeel-test-") as folder:
        yield folder


def python(place: process.Folder, code: str) -> process.ChildProcess:
    return process.ChildProcess("program", [sys.executable, "-c", code], place, {})


def sleeper(place: process.Folder) -> process.ChildProcess:
    started = python(place, SLEEPER)
    started.wait_until(lambda: started.has_said("up"), PATIENCE_SECONDS)
    return started


def is_there(pid: int) -> bool:
    """Whether a process runs, and does not just wait to be reaped."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def guards_of(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def caller(before: str = "", then: str = "") -> tuple[subprocess.Popen[str], int, Path]:
    """Start a caller; return it with the pid of its sleeping process and the path of its folder."""
    code = CALLER.format(sleeper=SLEEPER, before=textwrap.dedent(before), then=then)
    started = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    pid, folder = started.stdout.readline().split()
    assert Path(folder).is_dir()
    return started, int(pid), Path(folder)


def test_a_process_runs_until_it_is_killed(place: process.Folder) -> None:
    running = sleeper(place)
    assert running.is_running
    running.kill()
    assert not running.is_running
    assert not is_there(running.pid)


def test_what_a_process_has_started_is_killed_with_it(place: process.Folder) -> None:
    running = python(
        place,
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}])\n"
        "print('child', child.pid, 'is known', flush=True); child.wait()",
    )
    running.wait_until(lambda: running.has_said("is known"), PATIENCE_SECONDS)
    grandchild = int(running.log.read_text().split("child ")[1].split()[0])
    running.kill()
    assert ends(grandchild)


def test_a_process_that_is_asked_to_end_may_clean_up(place: process.Folder) -> None:
    running = python(
        place,
        "import signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('cleaned up'))\n"
        "print('up', flush=True)\n"
        "while True: signal.pause()",
    )
    running.wait_until(lambda: running.has_said("up"), PATIENCE_SECONDS)
    running.stop(PATIENCE_SECONDS)
    assert running.has_said("cleaned up")
    assert not running.is_running


def test_a_process_that_does_not_end_when_asked_is_killed(place: process.Folder) -> None:
    running = python(
        place,
        "import signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
        "print('up', flush=True)\n"
        "while True: signal.pause()",
    )
    running.wait_until(lambda: running.has_said("up"), PATIENCE_SECONDS)
    running.stop(0.2)
    assert running.has_said("no")
    assert not running.is_running


def test_a_process_that_ends_early_is_reported_at_once_with_its_last_words(
    place: process.Folder,
) -> None:
    running = python(place, "import sys; print('first'); sys.exit('no such option: speed')")
    began = time.monotonic()
    with pytest.raises(process.PartNotReadyError, match=r"program ended with code 1") as caught:
        running.wait_until(lambda: False, 60)
    assert time.monotonic() - began < 30
    assert "no such option: speed" in str(caught.value)
    assert str(caught.value.log) in str(caught.value)


def test_a_silent_process_is_reported_after_its_time(place: process.Folder) -> None:
    running = sleeper(place)
    with pytest.raises(process.PartNotReadyError, match=r"program is not ready after 0\.1 s"):
        running.wait_until(lambda: False, 0.1)


def test_the_log_that_an_error_names_outlives_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with process.make_folder("evenkeel-test-") as place:
        running = python(place, "print('the reason')")
        with pytest.raises(process.PartNotReadyError) as caught:
            running.wait_until(lambda: False, PATIENCE_SECONDS)
    assert not running.log.exists()
    assert caught.value.log.read_text() == "the reason\n"


def test_a_stack_of_java_does_not_hide_its_reason(place: process.Folder) -> None:
    steps = "print('java.net.BindException: taken'); print('\\tat java.base/x(X.java:1)\\n' * 40)"
    running = python(place, steps)
    with pytest.raises(process.PartNotReadyError, match=r"java\.net\.BindException: taken"):
        running.wait_until(lambda: False, PATIENCE_SECONDS)


def test_what_a_process_says_after_it_gave_up_does_not_hide_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    log = tmp_path / "broker.log"
    log.write_text("the reason\nI give up: now\n" + "a thread ends\n" * 40)
    error = process.PartNotReadyError("broker gives up", log, gives_up="I give up")
    assert str(error).endswith("\n  the reason\n  I give up: now")
    assert error.log.read_text() == log.read_text()


def test_a_program_that_is_not_there_is_named(place: process.Folder) -> None:
    running = process.ChildProcess("nothing", ["/no/such/program"], place, {})
    with pytest.raises(process.PartNotReadyError, match="/no/such/program does not start"):
        running.wait_until(lambda: False, PATIENCE_SECONDS)


def test_a_restart_does_not_take_the_words_of_the_last_start_for_its_own(
    place: process.Folder,
) -> None:
    sleeper(place).kill()
    again = python(place, "import time; time.sleep(60)")
    assert "up" in again.log.read_text()
    assert not again.has_said("up")


def test_a_folder_is_gone_when_left_with_all_that_runs_in_it() -> None:
    with process.make_folder("evenkeel-test-") as place:
        running = sleeper(place)
        (place.path / "data").write_text("much")
    assert not place.path.exists()
    assert not is_there(running.pid)


def test_a_killed_caller_leaves_no_process_and_no_folder() -> None:
    started, pid, folder = caller()
    guards = guards_of(started.pid)
    with started:
        started.kill()
    assert ends(pid)
    assert all(ends(guard) for guard in guards)
    assert not folder.exists()


def test_a_folder_is_not_removed_from_under_those_who_still_write_there() -> None:
    """The process's guard is stopped, so the process outlives the caller for a while."""
    started, pid, folder = caller()
    guard = parent_of(pid)
    (keeper,) = set(guards_of(started.pid)) - {guard}
    os.kill(guard, signal.SIGSTOP)
    with started:
        started.kill()
    assert not ends(keeper, seconds=0.3)
    assert folder.exists()
    os.kill(guard, signal.SIGCONT)
    assert ends(keeper)
    assert not is_there(pid)
    assert not folder.exists()


def test_a_process_forked_from_the_caller_does_not_keep_its_parts_alive() -> None:
    started, pid, folder = caller(
        then="forked = os.fork()\n"
        "    if forked == 0:\n"
        "        os.close(1); time.sleep(60); os._exit(0)\n"
        "    open(place.path / 'forked', 'w').write(str(forked))"
    )
    forked = int((folder / "forked").read_text())
    guards = [guard for guard in guards_of(started.pid) if guard != forked]
    with started:
        started.kill()
    assert ends(pid)
    assert all(ends(guard) for guard in guards)
    assert not folder.exists()
    os.kill(forked, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_guard_takes_its_process_with_it(place: process.Folder) -> None:
    running = sleeper(place)
    os.kill(parent_of(running.pid), signal.SIGKILL)
    assert ends(running.pid)


def test_ctrl_c_in_the_callers_terminal_leaves_the_ending_to_the_caller(
    place: process.Folder,
) -> None:
    running = sleeper(place)
    assert os.getsid(running.pid) != os.getsid(0)
    assert os.getpgid(running.pid) == running.pid


def test_a_claim_is_free_on_all_four_ports() -> None:
    claimed = ports.claim()
    for port in (claimed.port - 2, claimed.port, claimed.port + 1):
        with socket.create_server(("127.0.0.1", port)):
            pass
    claimed.release()


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_a_claim_avoids_what_is_in_use(offset: int) -> None:
    free = ports.claim()
    first = free.port - 2
    free.release()
    with (
        socket.create_server(("127.0.0.1", free.port + offset)),
        pytest.raises(OSError, match="in use"),
    ):
        ports.PortClaim(first)
    ports.PortClaim(first).release()


def claimed_ports(few: Sequence[int], found: "Queue[int]", done: synchronize.Event) -> None:
    """Claim eight of these ports in a separate process; hold them until `done` is set."""
    ports._FIRSTS = few
    claims = [ports.claim() for _ in range(8)]
    for claim in claims:
        found.put(claim.port)
    done.wait(PATIENCE_SECONDS)
    for claim in claims:
        claim.release()


def test_claims_of_several_processes_do_not_collide() -> None:
    """All processes want the same few ports, so a collision would show."""
    few = range(20_000, 20_000 + 4 * 40, 4)
    context = multiprocessing.get_context("spawn")
    found: Queue[int] = context.Queue()
    done = context.Event()
    runs = [context.Process(target=claimed_ports, args=(few, found, done)) for _ in range(3)]
    for run in runs:
        run.start()
    got = [found.get(timeout=PATIENCE_SECONDS) for _ in range(8 * len(runs))]
    done.set()
    for run in runs:
        run.join()
    assert len(set(got)) == len(got)


def test_no_free_port_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    only = ports.claim()
    monkeypatch.setattr(ports, "_FIRSTS", range(only.port - 2, only.port + 2, 4))
    with pytest.raises(ports.NoFreePortError):
        ports.claim()
    only.release()


def test_a_signal_while_a_guard_starts_leaves_nothing(
    place: process.Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard has started, but its caller does not know it yet."""
    started = []

    def interrupted(*given: object, **named: object) -> None:
        started.append(popen(*given, **named))  # type: ignore[call-overload] # as given
        raise KeyboardInterrupt

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        python(place, SLEEPER)
    place.close()
    (guard,) = started
    with guard:
        assert guard.wait(PATIENCE_SECONDS) == 128 + signal.SIGKILL
    assert not place.path.exists()
