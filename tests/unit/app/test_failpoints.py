"""Fault points: off without the variable, and never on by mistake."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app import failpoints
from app.failpoints import POINTS, VARIABLE, faults_of
from connectors.errors import SettingsError

APP = Path(failpoints.__file__).parent


def test_without_the_variable_a_point_does_nothing() -> None:
    failpoints.point("commit.before")
    failpoints.point("no such point")


def test_every_point_is_passed_somewhere_and_no_other_name_is() -> None:
    named = re.findall(
        r'^ +point\("([\w.]+)"\)$', "".join(p.read_text() for p in APP.rglob("*.py")), re.M
    )
    assert sorted(named) == sorted(POINTS)


@pytest.mark.parametrize(
    "text", ["commit.befor=kill", "commit.before=hurt", "commit.before=kill@x", "commit.before"]
)
def test_what_names_no_fault_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=VARIABLE):
        faults_of(text)


def test_a_fault_happens_at_its_pass_and_once() -> None:
    fault = faults_of("read.chunk=raise@3, claim.after=stall:0")["read.chunk"]
    fault.reach()
    fault.reach()
    with pytest.raises(OSError, match=r"read\.chunk"):
        fault.reach()
    fault.reach()


def test_a_stall_lasts_its_seconds() -> None:
    fault = faults_of("claim.after=stall:0.2")["claim.after"]
    began = time.monotonic()
    fault.reach()
    assert 0.2 <= time.monotonic() - began < 5


def test_a_freeze_lasts_until_the_process_is_continued() -> None:
    program = "from app.failpoints import point; point('init.after'); print('on')"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, VARIABLE: "init.after=freeze"},
        stdout=subprocess.PIPE,
    ) as frozen:
        os.waitid(os.P_PID, frozen.pid, os.WSTOPPED)
        frozen.send_signal(signal.SIGCONT)
        assert frozen.communicate(timeout=30)[0] == b"on\n"
        assert frozen.returncode == 0


def test_a_kill_leaves_no_time_for_anything() -> None:
    program = "import atexit; from app.failpoints import point; atexit.register(print, 'end')\n"
    ended = subprocess.run(
        [sys.executable, "-c", program + "point('init.after'); point('init.before'); print('on')"],
        env={**os.environ, VARIABLE: "init.before=kill"},
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, b"")
