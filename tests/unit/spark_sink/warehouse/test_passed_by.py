"""Records that are passed by: logged once, counted, and shown in the status."""

from __future__ import annotations

import logging

import pytest

from spark_sink.source.own_topics import ForeignRecord
from spark_sink.text.quoting import PASSED_BY
from spark_sink.warehouse.passed_by import PassedBy, passed_by_lines
from tests.harness.memory_warehouse.logs import MemoryNotes

SCHEMAS, DDL = "aq.__schemas", "aq.__ddl.shop"


def record(offset: int, topic: str = SCHEMAS, partition: int = 0) -> ForeignRecord:
    return ForeignRecord(topic, partition, offset, f"no table version: fault {offset}")


def test_a_topic_that_is_read_as_a_whole_counts_what_it_has_and_logs_each_record_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    notes = MemoryNotes()
    one = PassedBy(notes=notes)
    one.all_of(SCHEMAS, [])
    assert (list(passed_by_lines(notes, PASSED_BY)), notes.read(PASSED_BY)) == ([], None)
    one.all_of(SCHEMAS, [record(3), record(7)])
    one.all_of(SCHEMAS, [record(3), record(7)])
    assert list(passed_by_lines(notes, PASSED_BY)) == [
        "topic aq.__schemas: 2 record(s) PASSED BY, as no worker wrote them",
        "  last: topic aq.__schemas, partition 0, offset 7: no table version: fault 7",
    ]
    assert caplog.text.count("records passed by") == 1
    # Another process, and another record.
    again = PassedBy(notes=notes)
    again.all_of(SCHEMAS, [record(3), record(7)])
    assert caplog.text.count("records passed by") == 1
    again.all_of(SCHEMAS, [record(3), record(7), record(8)])
    assert caplog.text.count("records passed by") == 2
    assert "number=1 last: partition 0, offset 8" in caplog.text
    # The topic is compacted.
    again.all_of(SCHEMAS, [record(8)])
    assert "1 record(s)" in next(passed_by_lines(notes, PASSED_BY))
    again.all_of(SCHEMAS, [])
    assert list(passed_by_lines(notes, PASSED_BY)) == []


def test_a_topic_that_is_read_in_parts_counts_each_record_once() -> None:
    notes = MemoryNotes()
    one = PassedBy(notes=notes)
    one.more([record(3, DDL), record(1, DDL, 1)])
    one.more([record(3, DDL)])
    PassedBy(notes=notes).more([record(3, DDL), record(4, DDL), record(1, DDL, 1)])
    assert list(passed_by_lines(notes, PASSED_BY)) == [
        "topic aq.__ddl.shop: 3 record(s) PASSED BY, as no worker wrote them",
        "  last: topic aq.__ddl.shop, partition 0, offset 4: no table version: fault 4",
    ]
    # The topic was deleted and made again.
    again = PassedBy(notes=notes)
    again.forget([DDL, "aq.__ddl.other"])
    again.more([record(0, DDL)])
    assert "1 record(s)" in next(passed_by_lines(notes, PASSED_BY))
