import sys
from pathlib import Path

import pytest

from demo.errors import PartFailed
from demo.supervise import NEVER, Program, Restarting, Supervisor
from tests.harness.wait import until

_QUICK = Restarting(limit=2, first_delay=0.01)


def _program(tmp_path: Path, code: str) -> Program:
    return Program(
        name="the part",
        command=[sys.executable, "-S", "-c", code],
        log=tmp_path / "part.log",
        env={},
        advice="look at it",
    )


def _starts(tmp_path: Path) -> int:
    log = tmp_path / "part.log"
    return log.read_text().count("hello") if log.exists() else 0


_RUNS_FOR_EVER = "print('hello', flush=True); import time; time.sleep(60)"


def test_a_killed_program_is_started_again_and_counted(tmp_path: Path) -> None:
    part = Supervisor(_program(tmp_path, _RUNS_FOR_EVER), _QUICK)
    part.start()
    try:
        until(lambda: _starts(tmp_path) == 1)
        part.kill()
        until(lambda: _starts(tmp_path) == 2)
        assert part.restarts == 1
        part.check()
    finally:
        part.stop()
    assert "was killed by SIGKILL; started again" in (tmp_path / "part.log").read_text()


def test_a_program_that_dies_again_and_again_fails_with_the_end_of_its_log(tmp_path: Path) -> None:
    part = Supervisor(_program(tmp_path, "print('hello'); raise SystemExit(3)"), _QUICK)
    part.start()
    try:
        until(lambda: part.down)
        with pytest.raises(PartFailed) as failed:
            part.check()
    finally:
        part.stop()
    assert part.restarts == _QUICK.limit
    assert _starts(tmp_path) == 1 + _QUICK.limit
    message = str(failed.value)
    assert "the part ended with code 3 and is not started again" in message
    assert "| hello" in message
    assert str(tmp_path / "part.log") in message
    assert "look at it" in message


def test_a_program_that_may_not_be_started_again_fails_at_its_first_death(tmp_path: Path) -> None:
    part = Supervisor(_program(tmp_path, "print('hello')"), NEVER)
    part.start()
    try:
        until(lambda: part.down)
        assert part.restarts == 0
        with pytest.raises(PartFailed, match="ended with code 0"):
            part.check()
    finally:
        part.stop()


def test_stopping_ends_what_the_program_started_too(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print('hello', child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    program = _program(tmp_path, code)
    part = Supervisor(program, NEVER)
    part.start()
    try:
        until(lambda: _starts(tmp_path) == 1)
    finally:
        part.stop()
    grandchild = program.log.read_text().split()[-1]
    until(lambda: not _runs(int(grandchild)))
    assert part.restarts == 0


def _runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_the_delay_doubles_up_to_its_longest() -> None:
    restarting = Restarting(first_delay=0.5, longest_delay=3)
    assert [restarting.delay(n) for n in range(5)] == [0.5, 1, 2, 3, 3]
