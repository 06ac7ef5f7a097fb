"""Every column type at its limits: the decoded value equals that of SELECT."""

import json
from dataclasses import replace
from typing import Any

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from connectors.errors import MalformedEvent
from connectors.mysql.charsets import ReplacedText
from connectors.mysql.rows.compiled import CompiledDecoder
from connectors.mysql.rows.counter import row_count
from connectors.mysql.rows.decoder import RowDecoder
from connectors.mysql.schema.baseline import server_of
from devstack import Stack
from tables.rules.routes.routes import Routes
from tests.harness.sql import connected, run
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.oracle import rows_of, same
from tests.integration.worker.source import decoded, facts_of, written
from tests.steps import Rows

DATABASE = "oracle"


@pytest.fixture(scope="module", autouse=True)
def database(stack: Stack) -> None:
    run(stack.mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_decoded_row_is_what_the_server_selects(stack: Stack, family: str) -> None:
    table = f"{DATABASE}.{family}"
    steps = written(stack.mysql, *statements_for(table, FAMILIES[family]()))
    ours = [row.after() for row in decoded(stack.mysql, steps)]
    with connected(stack.mysql) as cursor:
        theirs = rows_of(cursor, DATABASE, family)
        kinds = types_of(cursor, family)
    different = [
        (row["id"], name, kinds[name], row[name], expected[name])
        for row, expected in zip(ours, theirs, strict=True)
        for name in expected
        if not same(row[name], expected[name], kinds[name].split("(")[0])
    ]
    assert ours
    assert not different


@pytest.mark.parametrize("family", FAMILIES)
def test_the_text_that_is_published_is_what_the_server_selects(stack: Stack, family: str) -> None:
    table = f"{DATABASE}.published_{family}"
    steps = written(stack.mysql, *statements_for(table, FAMILIES[family]()))
    charsets = facts_of(stack.mysql).charsets
    ours = [
        json.loads(row.after or "")
        for step in steps
        if isinstance(step, Rows)
        for row in CompiledDecoder(step.table_map, charsets).decode(step.event_type, step.body)
    ]
    with connected(stack.mysql) as cursor:
        theirs = rows_of(cursor, DATABASE, f"published_{family}")
        kinds = types_of(cursor, f"published_{family}")
    assert ours
    assert [
        (name, row[name], expected[name])
        for row, expected in zip(ours, theirs, strict=True)
        for name in expected
        if not same(row[name], expected[name], kinds[name])
    ] == []


def types_of(cursor: Any, table: str) -> dict[str, str]:
    cursor.execute(
        "SELECT column_name, LOWER(data_type) FROM information_schema.columns"
        f" WHERE table_schema = '{DATABASE}' AND table_name = '{table}'"
    )
    return dict(cursor.fetchall())


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_counted_without_knowing_their_values(stack: Stack, family: str) -> None:
    table = f"{DATABASE}.counted_{family}"
    steps = written(
        stack.mysql,
        *statements_for(table, FAMILIES[family]()),
        f"UPDATE {table} SET id = id + 100",
        f"DELETE FROM {table}",
    )
    charsets = facts_of(stack.mysql).charsets
    rows = [step for step in steps if isinstance(step, Rows)]
    counts = [row_count(step.table_map, step.event_type, step.body) for step in rows]
    decoders = [RowDecoder(step.table_map, charsets) for step in rows]
    assert sum(counts) >= 6
    assert counts == [
        len(list(decoder.decode(step.event_type, step.body)))
        for decoder, step in zip(decoders, rows, strict=True)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_definition_from_the_binlog_is_that_of_information_schema(
    stack: Stack, family: str
) -> None:
    table = f"{DATABASE}.described_{family}"
    steps = written(stack.mysql, *statements_for(table, FAMILIES[family]()))
    assert_described(stack, steps, f"described_{family}")


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("simple", "id int, name text, PRIMARY KEY (id)"),
        ("other_order", "a int, b int, c int, PRIMARY KEY (c, a)"),
        ("prefix", "a varchar(80), b varbinary(80), c int, PRIMARY KEY (b(10), c, a(5))"),
        ("no_key", "a int, b int, UNIQUE (a)"),
        ("generated", "a int, v int AS (a + 1), s int AS (a + 2) STORED, PRIMARY KEY (a)"),
        ("hidden", "a int, b int INVISIBLE DEFAULT 7, name varchar(9), PRIMARY KEY (a), INDEX ((a + b))"),
        ("quoted",
         "`a.b` int, `ключ` varchar(3) NOT NULL, e enum('it''s','A,b') NOT NULL, PRIMARY KEY (`a.b`)"),
        ("charsets",
         "a text, v vector(2), b blob, c char(3) CHARACTER SET latin1, j json, f varchar(9) CHARACTER SET gbk"),
        ("labels",
         "d enum('x'), e set('y') CHARACTER SET latin1, f varchar(9) CHARACTER SET latin1, g enum('z')"),
        ("signs",
         "a tinyint unsigned, y year, b int, c decimal(5,2) unsigned, d double unsigned, e bigint, k bit(3)"),
    ],
)  # fmt: skip
def test_keys_and_hidden_columns_are_those_of_information_schema(
    stack: Stack, name: str, columns: str
) -> None:
    steps = written(
        stack.mysql,
        "SET SESSION sql_mode = ''",
        f"CREATE TABLE {DATABASE}.{name} ({columns})",
        f"INSERT INTO {DATABASE}.{name} () VALUES ()",
    )
    assert_described(stack, steps, name)


def assert_described(stack: Stack, steps: list[Any], table: str) -> None:
    step = next(step for step in steps if isinstance(step, Rows))
    facts = facts_of(stack.mysql)
    book = CapturedTables(Routes(prefix="aq"), facts.charsets, server=server_of(facts))
    table_of = book.of(step.table_map)
    assert isinstance(table_of, CapturedTable)
    definition = table_of.definition
    ours = [(c.name, c.type, c.nullable, c.charset) for c in definition.columns]
    with connected(stack.mysql) as cursor:
        cursor.execute(
            "SELECT column_name, column_type, is_nullable = 'YES', character_set_name"
            " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
            " ORDER BY ordinal_position",
            (DATABASE, table),
        )
        theirs = [
            (name, kind, bool(null), charset) for name, kind, null, charset in cursor.fetchall()
        ]
        cursor.execute(
            "SELECT column_name FROM information_schema.key_column_usage WHERE table_schema = %s"
            " AND table_name = %s AND constraint_name = 'PRIMARY' ORDER BY ordinal_position",
            (DATABASE, table),
        )
        key = tuple(name for (name,) in cursor.fetchall())
    # Display widths are not in the binlog; MySQL still prints that of BOOL.
    assert ours == [
        (name, kind.replace("tinyint(1)", "tinyint"), *more) for name, kind, *more in theirs
    ]
    assert definition.primary_key == key


def test_bytes_that_no_column_can_hold_stop_the_table_and_are_not_replaced(stack: Stack) -> None:
    table = f"{DATABASE}.damaged"
    steps = written(
        stack.mysql,
        f"CREATE TABLE {table} (id int primary key, c varchar(9) CHARACTER SET utf8mb4)",
        f"INSERT INTO {table} VALUES (1, 'é')",
    )
    assert [row.after()["c"] for row in decoded(stack.mysql, steps)] == ["é"]
    # The server refuses such bytes, so they are put into the event that it wrote.
    broken = [
        replace(step, body=step.body.replace("é".encode(), b"\xc3("))
        if isinstance(step, Rows)
        else step
        for step in steps
    ]
    with pytest.raises(MalformedEvent, match=table):
        decoded(stack.mysql, broken)


def test_bytes_without_a_character_are_what_the_server_selects_and_are_marked(
    stack: Stack,
) -> None:
    table = f"{DATABASE}.unmapped"
    steps = written(
        stack.mysql,
        f"CREATE TABLE {table} (id int primary key, c varchar(9) CHARACTER SET cp1251)",
        f"INSERT INTO {table} VALUES (1, 0x6198), (2, '?')",
    )
    with connected(stack.mysql) as cursor:
        cursor.execute(f"SELECT c FROM {table} ORDER BY id")
        selected = [text for (text,) in cursor.fetchall()]
    found = [row.after()["c"] for row in decoded(stack.mysql, steps)]
    assert found == selected == ["a?", "?"]
    assert [isinstance(text, ReplacedText) for text in found] == [True, False]
