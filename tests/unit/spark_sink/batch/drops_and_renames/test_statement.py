"""Statements of the DDL topics: how far they are read, and how they are parsed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.drops_and_renames import statement
from spark_sink.batch.drops_and_renames.statement import KafkaDdl, parse_statement
from spark_sink.errors import MalformedRecord, UnsupportedWire
from spark_sink.settings.model import Settings
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
