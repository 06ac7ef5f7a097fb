"""Who runs which sink of a warehouse, without a comparison of clocks."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from py4j.protocol import Py4JError

from spark_sink.errors import CheckpointShared, WarehouseShared
from spark_sink.jobs.presence import Presence, SinkNote, has_ended, is_running
from tests.harness.memory_warehouse import MemoryNotes

TOPICS = ["aq.shop.t", "aq.shop.u", "aq.crm.v"]
ONE = SinkNote(name="", pattern="aq.shop", checkpoint="w/__checkpoint", fresh=True)
TWO = SinkNote(name="two", pattern="aq.crm", checkpoint="w/__checkpoint-two", fresh=False)


def made(notes: MemoryNotes, own: SinkNote, wait: Callable[[float], object] = bool) -> Presence:
    """A presence that has topics that begin with its pattern."""
    return Presence(
        notes=notes,
        own=own,
        matching=lambda pattern, names: {name for name in names if name.startswith(pattern)},
        wait=wait,
    )


def crashed(notes: MemoryNotes, own: SinkNote, **other: object) -> None:
    """Leaves the note of a sink that was killed."""
    note = replace(own, process="p", host="elsewhere", beat=7, **other)  # type: ignore[arg-type]
    notes.write(f"__sinks/{own.name or 'default.unnamed'}.json", note.text())


def test_two_sinks_with_their_own_topics_run_on_one_warehouse() -> None:
    notes = MemoryNotes()
    first, second = made(notes, ONE), made(notes, TWO)
    first.claim(TOPICS)
    second.claim(TOPICS)
    assert notes.names("__sinks") == ["default.unnamed.json", "two.json"]
    first.end()
    second.end()
    assert has_ended(notes, "two")


def test_a_sink_knows_the_age_of_another_s_batch_and_up_to_when_its_topics_are_applied() -> None:
    notes = MemoryNotes()
    first, second = made(notes, ONE), made(notes, TWO)
    first.busy, first.complete_until = lambda: 70.0, lambda: 500.0
    assert second.complete_elsewhere() == first.complete_at_last() == float("inf")
    first.claim(TOPICS)
    assert (second.busy_elsewhere(), first.busy_elsewhere()) == (70.0, 0.0)
    assert (second.complete_elsewhere(), first.complete_elsewhere()) == (500.0, float("inf"))
    first.end()
    # Its tables are as complete as it left them.
    assert (second.busy_elsewhere(), second.complete_elsewhere()) == (0.0, 500.0)
    assert first.complete_at_last() == 500.0


@pytest.mark.remedy("sink.WarehouseShared")
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (replace(TWO, pattern="aq.shop.u"), r"both read aq\.shop\.u.*include and exclude"),
        (replace(TWO, checkpoint=ONE.checkpoint), "both have the checkpoint"),
        (replace(TWO, fresh=True), "both store recent changes. Set fresh: false"),
        (
            replace(TWO, moves=True),
            "sink 'two' would move .* Set on_rename: keep and on_drop: keep",
        ),
    ],
    ids=["topics", "checkpoint", "recent changes", "DDL"],
)
def test_sinks_that_are_not_apart_are_refused_unless_one_was_stopped(
    other: SinkNote, reason: str
) -> None:
    notes = MemoryNotes()
    first = made(notes, ONE)
    first.claim(TOPICS)
    with pytest.raises(WarehouseShared, match=reason) as fault:
        made(notes, other).claim(TOPICS)
    assert "the sink without a name" in str(fault.value)
    first.end()
    again = made(notes, other)
    again.claim(TOPICS)
    again.end()


def test_on_a_store_that_lets_writers_replace_each_other_s_commits_one_sink_runs() -> None:
    notes = MemoryNotes(excludes=False)
    first = made(notes, ONE)
    first.claim(TOPICS)
    with pytest.raises(
        WarehouseShared, match=r"would replace commits .* log store for several writers"
    ):
        made(notes, TWO).claim(TOPICS)
    first.end()
    second = made(notes, TWO)
    second.claim(TOPICS)
    with pytest.raises(WarehouseShared, match=r"delete __sinks/two\.json"):
        made(notes, ONE).claim(TOPICS)
    second.end()


def test_a_sink_that_was_killed_is_in_the_way_of_others_and_not_of_itself() -> None:
    notes = MemoryNotes()
    crashed(notes, ONE)
    with pytest.raises(WarehouseShared, match=r"delete __sinks/default\.unnamed\.json"):
        made(notes, replace(TWO, fresh=True)).claim(TOPICS)
    own = made(notes, ONE)
    own.claim(TOPICS)
    own.end()
    again = made(notes, ONE)
    again.claim(TOPICS)
    again.end()
    assert (own.broke_off, again.broke_off) == (True, False)


def test_a_sink_that_an_error_ended_is_gone_at_once_and_was_not_stopped_in_order() -> None:
    notes = MemoryNotes()
    failed = made(notes, ONE)
    failed.claim(TOPICS)
    failed.end(failed=True)
    assert has_ended(notes, "")
    assert not is_running(notes, "", wait=lambda _: pytest.fail("it waits"))
    # No other sink is refused because of it.
    other = made(notes, replace(TWO, fresh=True))
    other.claim(TOPICS)
    other.end()
    again = made(notes, ONE)
    again.claim(TOPICS)
    again.end()
    assert (again.broke_off, json.loads(again.own.text())["failed"]) == (True, False)


def test_a_sink_that_runs_is_known_by_its_beats_and_not_started_again() -> None:
    notes, beats = MemoryNotes(), itertools.count(8)
    crashed(notes, ONE)
    assert not is_running(notes, "", wait=bool)
    note = replace(ONE, process="p", host="elsewhere")

    def later(_: float) -> None:
        body = json.loads(replace(note, beat=next(beats)).text())
        # By a later version of the sink, which states more.
        notes.write("__sinks/default.unnamed.json", json.dumps(body | {"more": 1}))

    assert is_running(notes, "", wait=later)
    with pytest.raises(CheckpointShared, match="already runs as process 0 on elsewhere"):
        made(notes, ONE, wait=later).claim(TOPICS)


def test_of_two_processes_of_one_sink_the_one_that_began_first_ends() -> None:
    notes = MemoryNotes()
    paused, started = made(notes, ONE), made(notes, ONE)
    paused.claim(TOPICS)
    paused._beat()
    assert paused.superseded is None
    # As if the first had not beaten for long.
    held = SinkNote.of(notes.read("__sinks/default.unnamed.json"))
    assert held is not None
    notes.write("__sinks/default.unnamed.json", replace(held, ended=True).text())
    started.claim(TOPICS)
    text = notes.read("__sinks/default.unnamed.json")
    paused._beat()
    assert "the sink without a name runs as process" in str(paused.superseded)
    paused.end()
    assert notes.read("__sinks/default.unnamed.json") == text
    started._beat()
    assert started.superseded is None
    started.end()
    assert has_ended(notes, "")


def test_of_this_machine_a_process_that_is_gone_needs_no_wait() -> None:
    notes = MemoryNotes()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    def waited(_: float) -> None:
        pytest.fail("it waited")

    gone = replace(ONE, process="p", host=socket.gethostname(), pid=child.pid)
    notes.write("__sinks/default.unnamed.json", gone.text())
    assert not is_running(notes, "", wait=waited)
    notes.write("__sinks/default.unnamed.json", replace(gone, pid=os.getpid()).text())
    assert not is_running(notes, "", wait=waited)
    notes.write("__sinks/default.unnamed.json", replace(gone, pid=os.getppid()).text())
    with pytest.raises(pytest.fail.Exception, match="it waited"):
        is_running(notes, "", wait=waited)


class Writing(MemoryNotes):
    """Notes of which each is being written at the first look."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def read(self, name: str) -> str | None:
        self.looks += 1
        if self.looks == 1:
            raise Py4JError("checksum error")
        return '{"vers' if self.looks == 2 else super().read(name)


def test_a_note_that_is_being_written_is_read_again() -> None:
    notes = Writing()
    crashed(notes, ONE)
    other = made(notes, replace(TWO, fresh=True))
    # Without a note of its own, there is nothing to wait for.
    notes.looks = 2
    assert not is_running(notes, "two", wait=bool)
    notes.looks = 0
    with pytest.raises(WarehouseShared, match="both store recent changes"):
        other._check_apart(other._others()[0], TOPICS)
    notes.looks = 0

    def beat(_: float) -> None:
        if notes.looks > 2:
            note = replace(ONE, process="p", host="elsewhere", beat=notes.looks + 7)
            notes.write("__sinks/default.unnamed.json", note.text())

    assert is_running(notes, "", wait=beat)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "strange": 1}'])
def test_a_note_that_a_crash_has_cut_or_another_version_wrote_is_none(text: str) -> None:
    notes = MemoryNotes()
    notes.write("__sinks/default.unnamed.json", text)
    assert not is_running(notes, "", wait=bool)
    own = made(notes, ONE)
    own.claim(TOPICS)
    own.end()
