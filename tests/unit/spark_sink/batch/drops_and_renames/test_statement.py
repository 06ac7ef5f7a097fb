"""Statements of the DDL topics: how far they are read, how they are parsed, and what is decided about them."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.drops_and_renames import statement
from spark_sink.batch.drops_and_renames.statement import (
    KafkaDdl,
    decided,
    parse_statement,
)
from spark_sink.errors import MalformedRecord, UnsupportedWire
from spark_sink.settings.model import OnDrop, OnRename, Settings
from spark_sink.warehouse.ledger import Floor, Source
from spark_sink.warehouse.moves import Event, History, Name, Place
from tests.unit.spark_sink.batch.drops_and_renames.statements import (
    create,
    drop,
    record,
    rename,
    table,
)

A, B, C = ("shop", "a"), ("shop", "b"), ("shop", "c")


def test_names_in_between_are_no_part_of_a_swap() -> None:
    found = parse_statement(rename(9, ("a", "t"), ("b", "a"), ("t", "b")), "here")
    assert (found.renamed, found.dropped, found.place) == ({A: B, B: A}, (), (1, 9))


def test_names_in_between_may_be_stated_too_or_be_taken_afterwards() -> None:
    pairs = ("a", "t"), ("b", "a"), ("t", "b")
    steps = [
        step
        for old, new in pairs
        for step in (table(old, "renamed", to=new), table(new, "renamed", was=old))
    ]
    assert parse_statement(record(9, "RENAME …", *steps), "here").renamed == {A: B, B: A}
    found = parse_statement(rename(9, *pairs, ("c", "t")), "here")
    assert found.renamed == {A: B, B: A, C: ("shop", "t")}


def test_a_chain_in_one_statement_takes_each_table_to_its_last_name() -> None:
    found = parse_statement(rename(9, ("b", "c"), ("a", "b")), "here")
    assert found.renamed == {B: C, A: B}
    assert parse_statement(rename(9, ("a", "t"), ("t", "a")), "here").renamed == {}


def test_drops_and_creates_are_named() -> None:
    assert parse_statement(drop(9, "a", "b"), "here").dropped == (A, B)
    assert parse_statement(create(9, "a"), "here").created == (A,)


def test_a_table_that_a_tool_moves_aside_stays() -> None:
    aside = {"kind": "table quarantined", "database": "shop", "table": "a"}
    moved = record(9, "RENAME …", table("a", "renamed", to="_a_del"), effects=[aside])
    assert parse_statement(moved, "here").renamed == {}
    dropped = record(9, "DROP …", table("a", "dropped"), effects=[aside])
    assert parse_statement(dropped, "here").dropped == ()


@pytest.mark.parametrize(
    ("ddl", "emptied"),
    [
        ("ALTER TABLE a TRUNCATE PARTITION p1", [(A, "TRUNCATE PARTITION")]),
        (
            "/* x */ alter table `q`.`a``b` drop  partition p1, p2",
            [(("q", "a`b"), "DROP PARTITION")],
        ),
        ("ALTER TABLE shop . a EXCHANGE PARTITION p WITH TABLE b", [(A, "EXCHANGE PARTITION")]),
        ("ALTER TABLE a IMPORT TABLESPACE", [(A, "IMPORT TABLESPACE")]),
        ("ALTER TABLE a COMMENT 'DROP PARTITION p'", []),
        ("ALTER TABLE a ADD PARTITION (PARTITION p1 VALUES LESS THAN (9))", []),
    ],
)
def test_rows_that_go_without_a_record_are_noticed(ddl: str, emptied: object) -> None:
    assert list(parse_statement(record(9, ddl), "here").emptied) == emptied


@pytest.mark.parametrize(
    ("ddl", "unknown"),
    [
        ("DROP TABLE a", True),
        ("/* by x */ rename table a to b", True),
        ("DROP DATABASE d", True),
        ("DROP VIEW v", False),
        ("DROP TEMPORARY TABLE a", False),
        ("ALTER TABLE a ADD b int", False),
    ],
)
def test_a_statement_without_its_effect_is_known_to_be_unknown(ddl: str, unknown: bool) -> None:
    body = json.loads(record(9, ddl))
    del body["tables"], body["effects"]
    assert parse_statement(json.dumps(body), "here").is_unknown is unknown


def test_a_record_that_breaks_the_contract_is_named() -> None:
    with pytest.raises(MalformedRecord, match="topic x, offset 7"):
        parse_statement("{}", "topic x, offset 7")
    body = json.loads(drop(9, "a"))
    body["source"]["wire"] = 2
    with pytest.raises(UnsupportedWire, match="wire 2"):
        parse_statement(json.dumps(body), "here")


AT = ("aq.__ddl.shop", 0)
Ends = dict[tuple[str, int], int]


class Kafka:
    """A DDL topic of which more and more is committed."""

    def __init__(self, written: Ends, *committed: Ends) -> None:
        self.ends, self.committed = written, list(committed)

    def written(self, _: str) -> Ends:
        return self.ends

    def ranges(self, _: str) -> tuple[Ends, Ends]:
        return dict.fromkeys(self.ends, 0), self.committed.pop(0)


def settled(
    monkeypatch: pytest.MonkeyPatch, kafka: Kafka, *, seconds: float = 0.0
) -> tuple[Any, list[float]]:
    @contextmanager
    def admin(*_: object) -> Iterator[Kafka]:
        yield kafka

    monkeypatch.setattr(statement, "admin", admin)
    times = iter(range(100))
    slept: list[float] = []
    read = KafkaDdl(
        cast(SparkSession, None),
        Settings(prefix="aq", bootstrap_servers="127.0.0.1:1", warehouse="/nowhere"),
        clock=lambda: seconds * next(times),
        sleep=slept.append,
    )
    return read.settled()[1], slept


def test_a_statement_that_is_written_but_not_decided_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = Kafka({AT: 5}, {AT: 3}, {AT: 3}, {AT: 6})
    assert settled(monkeypatch, kafka) == ({AT: 6}, [0.1, 0.1])
    assert caplog.records == []


def test_a_transaction_that_stays_open_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    kafka = Kafka({AT: 5}, *([{AT: 3}] * 4), {AT: 5})
    assert settled(monkeypatch, kafka, seconds=15)[0] == {AT: 5}
    (line,) = [record.getMessage() for record in caplog.records]
    assert "neither committed nor aborted" in line
    assert "topic=aq.__ddl.shop" in line


def test_without_a_topic_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settled(monkeypatch, Kafka({})) == ({}, [])


def event(
    text: str,
    *,
    on_drop: OnDrop = "keep",
    on_rename: OnRename = "move",
    mapped: Collection[Name] = (),
    noted: Collection[Name] = (),
    floor: Place | None = None,
) -> Event | None:
    return decided(
        parse_statement(text, "here"),
        on_drop=on_drop,
        on_rename=on_rename,
        is_mapped=mapped.__contains__,
        floor=lambda _, name: floor if name == A else None,
        is_noted=noted.__contains__,
    )


def noted(event: Event | None) -> dict[Name, str]:
    assert event is not None
    return {note.name: note.text for note in event.notes}


def test_a_dropped_table_keeps_its_rows_with_a_note_unless_they_are_to_go() -> None:
    kept = event(drop(9, "a"))
    assert kept is not None
    assert (dict(kept.moves), kept.removed) == ({}, ())
    assert "1970-01-01T00:16:40Z; its rows are kept (on_drop: keep)" in noted(kept)[A]
    emptied = event(drop(9, "a"), on_drop="truncate")
    assert emptied is not None
    assert (dict(emptied.moves), emptied.removed) == ({A: None}, ())
    removed = event(drop(9, "a"), on_drop="drop")
    assert removed is not None
    assert (dict(removed.moves), removed.removed, noted(removed)) == ({A: None}, (A,), {A: ""})


DROPPED = ("shop", "a__dropped_19700101001640_9")


def test_a_table_that_is_dropped_or_made_again_is_another_one_and_its_rows_get_a_name_of_their_own() -> (
    None
):
    moved = event(drop(9, "a"), on_drop="rename", floor=(1, 4))
    assert moved is not None
    assert (dict(moved.moves), moved.removed) == ({A: DROPPED}, ())
    assert dict(moved.carried) == {DROPPED: (1, 4)}
    assert noted(moved) == {
        A: "",
        DROPPED: "was shop.a until 1970-01-01T00:16:40Z, when the source dropped it",
    }
    # Rows that an earlier setting kept.
    again = event(create(9, "a"), on_drop="rename", noted={A})
    assert again is not None
    assert dict(again.moves) == {A: DROPPED}
    taken = event(rename(9, ("b", "a")), on_drop="rename")
    assert taken is not None
    assert dict(taken.moves) == {B: A, A: DROPPED}
    assert event(create(9, "a"), on_drop="rename") is None
    assert event(drop(9, "a"), on_drop="rename", mapped={A}) is None


def test_a_renamed_table_takes_its_rows_and_its_truncates_and_ends_what_was_left_there() -> None:
    moved = event(rename(9, ("a", "b")), floor=(1, 4))
    assert moved is not None
    assert dict(moved.moves) == {A: B, B: None}
    assert dict(moved.carried) == {B: (1, 4)}
    swapped = event(rename(9, ("a", "t"), ("b", "a"), ("t", "b")))
    assert swapped is not None
    assert dict(swapped.moves) == {A: B, B: A}


def test_a_table_that_keeps_its_rows_says_where_those_of_each_name_are() -> None:
    notes = noted(event(rename(9, ("a", "t"), ("b", "a"), ("t", "b")), on_rename="keep"))
    assert "renamed to shop.b" in notes[A]
    assert "was shop.b until" in notes[A]
    assert "renamed to shop.a" in notes[B]
    stays = event(rename(9, ("a", "b")), mapped={B})
    assert stays is not None
    assert dict(stays.moves) == {}
    assert "a mapping fills shop.b" in noted(stays)[A]


def test_a_mapping_says_what_a_drop_of_its_tables_does() -> None:
    assert event(drop(9, "a"), on_drop="drop", mapped={A}) is None


def test_a_table_created_again_ends_the_note_or_says_what_is_still_in_it() -> None:
    assert event(create(9, "a")) is None
    assert "are still in it" in noted(event(create(9, "a"), noted={A}))[A]
    assert noted(event(create(9, "a"), noted={A}, on_drop="truncate")) == {A: ""}


def test_rows_that_no_record_removes_are_noted() -> None:
    assert (
        "DROP PARTITION at the source"
        in noted(event(record(9, "ALTER TABLE a DROP PARTITION p")))[A]
    )
    comes = {"kind": "table comes in", "database": "shop", "table": "a"}
    omitted = {"kind": "truncate omitted", "database": "shop", "table": "a"}
    assert (
        "rows from before are kept" in noted(event(record(9, "TRUNCATE a", effects=[omitted])))[A]
    )
    came = noted(event(record(9, "RENAME …", effects=[comes])))[A]
    assert came.endswith(
        "from a table that is not captured; its earlier rows are in no topic. "
        "Run: python -m app snapshot start shop shop.a --replace"
    )
    # As the worker knows them, with the other table of an exchange too.
    effects = [
        {"kind": "rows changed", "database": "shop", "table": name, "new": "EXCHANGE PARTITION"}
        for name in "ab"
    ]
    found = noted(
        event(record(9, "ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", effects=effects))
    )
    assert found.keys() == {A, B}
    computed = {"kind": "column generated", "database": "shop", "table": "a", "column": "g"}
    text = noted(event(record(9, "ALTER TABLE a MODIFY g …", effects=[computed])))[A]
    assert text.startswith("recomputation of g at the source")


def test_a_statement_on_partitions_leaves_a_gap_with_what_to_do_until_the_table_is_gone() -> None:
    history = History()

    def gaps(text: str, **more: Any) -> set[Name]:
        found = event(text, **more)
        assert found is not None
        history.add([Event.of(found.destination, found.place, found.ts_ms, found.text())])
        return history.gaps()

    assert gaps(record(9, "ALTER TABLE a DROP PARTITION p1")) == {A}
    (text,) = history.notes()[A]
    assert "in no topic, so no reload helps. Run: python -m app snapshot start shop shop.a" in text
    floor = Floor(database="shop", table="a", source=Source("shop", *A), epoch=1, seq=8, ts_ms=0)
    assert history.gaps([floor]) == {A}
    # A snapshot that replaces the rows begins with the record of a truncate.
    assert history.gaps([replace(floor, seq=11)]) == set()
    assert history.notes([replace(floor, seq=11)]) == {}
    assert gaps(record(10, "ALTER TABLE a EXCHANGE PARTITION p1 WITH TABLE b")) == {A}
    assert gaps(drop(11, "a"), on_drop="truncate") == set()
