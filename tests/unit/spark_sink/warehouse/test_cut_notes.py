"""Notes that a process was killed in writing, and the note that two processes write."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from spark_sink.batch.drops_and_renames.moving import Moving
from spark_sink.text.quoting import APPLICATIONS, CHANGED_ELSEWHERE, MOVED
from spark_sink.warehouse.iceberg.foreign_commits import IcebergCommits
from spark_sink.warehouse.integrity import foreign_lines, forget_foreign, note_foreign
from spark_sink.warehouse.protocol import ForeignCommit
from spark_sink.warehouse.shape import Shape
from tests.harness.memory_warehouse import MemoryNotes, MemoryWarehouse

NAME = ("shop", "t")
CUT = ["", "{", '{"version":1,"comm', '{"version": 1, "tables": [["shop", "t", tr']


@pytest.mark.parametrize("text", CUT)
def test_rows_that_another_program_changed_are_noted_again_after_a_note_that_was_cut(
    text: str,
) -> None:
    kept = MemoryWarehouse()
    kept.tables.evolve(None, Shape(*NAME, (("id", "int"),), ("id",)))
    kept.notes.write(f"{CHANGED_ELSEWHERE}/shop%t.json", text)
    assert list(foreign_lines(kept)) == []
    forget_foreign(kept.notes, NAME)
    note_foreign(kept.notes, NAME, [ForeignCommit(version=7, operation="DELETE", at_ms=0)])
    ((name, line),) = foreign_lines(kept)
    assert name == NAME
    assert line.startswith("another program changed rows: DELETE made version 7")


@pytest.mark.parametrize("text", CUT)
def test_moves_begin_again_after_a_note_that_was_cut_as_no_table_was_changed_before_it(
    text: str,
) -> None:
    kept: Any = MemoryWarehouse()
    kept.tables.evolve(None, Shape(*NAME, (("id", "int"),), ("id",)))
    kept.notes.write(MOVED, text)
    moving = Moving(warehouse=kept, wait=lambda *_: None, waiting=lambda _: None)
    assert moving.finish().changed == frozenset()
    assert kept.tables.names() == [NAME]


def commits(notes: MemoryNotes, application: str) -> IcebergCommits:
    """What a process with that identifier knows."""
    context = SimpleNamespace(applicationId=application)
    tables: Any = SimpleNamespace(spark=SimpleNamespace(sparkContext=context))
    return IcebergCommits(tables=tables, notes=notes)


def test_a_sink_knows_its_applications_of_many_runs_and_those_that_began_later() -> None:
    notes = MemoryNotes()
    notes.write(APPLICATIONS, '["app-0", ')
    for number in range(1, 300):
        commits(notes, f"app-{number}").announce()
    first = commits(notes, "here")
    assert first.is_of_sink("app-1")
    assert not first.is_of_sink("analyst")
    commits(notes, "later").announce()
    assert first.is_of_sink("later")
    assert len(json.loads(notes.read(APPLICATIONS) or "")) == 300
