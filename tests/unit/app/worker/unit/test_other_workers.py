"""Detection of other live workers by Kafka's group and this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.worker.unit.other_workers import client_id, living
from app.worker.unit.process_identity import is_gone, is_here, this_process


def test_this_process_lives_and_one_that_has_ended_is_gone() -> None:
    assert is_here(this_process())
    assert not is_gone(this_process())
    result = "from app.worker.unit.process_identity import this_process; print(this_process())"
    ended = subprocess.run(
        [sys.executable, "-c", result], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert is_here(ended)
    assert is_gone(ended)


def test_one_that_has_another_start_has_only_the_same_number() -> None:
    assert is_gone(f"{this_process()}0")


def test_of_one_elsewhere_nothing_is_guessed() -> None:
    assert not is_gone("b0-f1-1-7")
    assert not is_gone("nothing that a worker writes")


def test_others_are_those_that_live_and_are_not_this_worker_before_it_was_started_again() -> None:
    here = this_process().rpartition("-")[0].rpartition("-")[0]
    clients = [
        client_id("a"),
        "faust-0.15.3",
        "aqueduct.a.b0-f1-1-7",
        "aqueduct.b.example.com.b0-f1-1-7",
        f"aqueduct.c.{here}-999999999-5",
        f"aqueduct.a.{here}-1-{_started_of_the_first()}",
    ]
    assert list(living(clients, "a")) == ["b0-f1-1-7", f"{here}-1-{_started_of_the_first()}"]


def _started_of_the_first() -> str:
    return Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
