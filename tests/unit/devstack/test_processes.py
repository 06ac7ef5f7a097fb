import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.errors import DevstackError, MissingSoftwareError, StoppedError, ToolError
from devstack.parallel import run_all
from devstack.processes import Children, ProcessIdentity, end, parse_stat, start_tick, tail

STUBBORN = (
    "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)


@pytest.fixture
def children() -> Iterator[Children]:
    owner = Children()
    yield owner
    owner.close()


def own_identity() -> ProcessIdentity:
    started = start_tick(os.getpid())
    assert started is not None
    return ProcessIdentity(os.getpid(), started)


def test_the_start_time_is_found_after_a_name_with_spaces_and_parentheses() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parse_stat(f"17 (a) b (c) S {fields}\n") == ("S", 22)


def test_a_reused_pid_is_another_process_and_gets_no_signal() -> None:
    mine = own_identity()
    other = ProcessIdentity(mine.pid, mine.started - 1)
    assert mine.alive()
    assert not other.alive()
    other.signal(signal.SIGKILL)  # this test would not continue


def test_a_process_that_ended_but_was_not_waited_for_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert start_tick(process.pid) is None
    process.wait()


def test_a_process_that_ignores_sigterm_is_killed(children: Children, tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = children.start([sys.executable, "-c", STUBBORN], label="stubborn", log=log)
    while not log.read_text():
        assert child.alive()
    end(child.identity, grace=0.2)
    assert child.popen.wait() == -signal.SIGKILL


def test_a_failed_tool_is_reported_with_the_end_of_its_output(
    children: Children, tmp_path: Path
) -> None:
    with pytest.raises(ToolError, match=r"sh failed with status 3; from .*\n    the reason$"):
        children.run(["sh", "-c", "echo the reason; exit 3"], log=tmp_path / "log")


def test_a_missing_program_is_named(children: Children, tmp_path: Path) -> None:
    with pytest.raises(MissingSoftwareError, match="no-such-program is not installed"):
        children.run(["no-such-program"], log=tmp_path / "log")


def test_closing_ends_a_running_tool_and_refuses_new_ones(
    children: Children, tmp_path: Path
) -> None:
    child = children.start(["sleep", "60"], label="sleep", log=tmp_path / "log")
    closing = threading.Thread(target=children.close)
    closing.start()
    closing.join()
    assert not child.alive()
    with pytest.raises(StoppedError):
        children.start(["sleep", "60"], label="sleep", log=tmp_path / "log")


def test_a_child_outlives_the_thread_that_asked_for_it(children: Children, tmp_path: Path) -> None:
    log = tmp_path / "log"
    started = []

    def start() -> None:
        child = children.start(["sh", "-c", "echo up; exec sleep 60"], label="sh", log=log)
        while not log.read_text():  # until then the kernel may not know whom to signal
            assert child.alive()
        started.append(child)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    while Path(f"/proc/self/task/{thread.native_id}").exists():
        pass  # the kernel has sent its signal when it forgets the thread
    assert started[0].alive()


def test_the_first_fault_is_raised_and_not_what_it_called_off(children: Children) -> None:
    begun = threading.Event()

    def waits() -> None:
        begun.set()
        while True:
            children.check_open()

    def fails() -> None:
        begun.wait()
        raise DevstackError("the reason")

    with pytest.raises(DevstackError, match="the reason"):
        run_all(children, [waits, fails])


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == ""
    log.write_text("\n".join(str(number) for number in range(100)))
    assert tail(log, 2) == "    98\n    99"


def test_the_tail_of_a_log_shows_a_java_exception_without_its_stack(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("up\nException: the reason\n\tat a.B.c(B.java:1)\n\t... 9 more\n")
    assert tail(log, 1) == "    Exception: the reason"
