"""Rows of every type are the same whether they come from the binlog or from SELECT."""

from dataclasses import replace

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.ddl.definition import Database
from connectors.mysql.schema.table_map_completion import adopted
from connectors.mysql.select.packets import PacketEncoder
from connectors.mysql.types.registry import FieldType
from devstack import Stack
from tests.harness.sql import run
from tests.integration.snapshot.both import (
    DATABASE,
    LAX,
    assert_both_ways,
    assert_same,
    assert_same_map,
    definition_of,
    known_facts,
    logged,
    packets_of,
    selected,
    selected_table,
    table_map_of,
)
from tests.integration.snapshot.columns import OTHER_COLUMNS
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.source import written


@pytest.mark.parametrize("family", FAMILIES)
def test_every_type_at_its_limits(stack: Stack, family: str) -> None:
    steps = written(stack.mysql, *statements_for(f"{DATABASE}.{family}", FAMILIES[family]()))
    name = (DATABASE, family)
    assert_same(selected(stack.mysql, name), logged(stack.mysql, steps, name))
    assert_same_map(stack.mysql, name, table_map_of(steps, name))


@pytest.mark.parametrize("family", OTHER_COLUMNS)
def test_every_spelling_of_a_type(stack: Stack, family: str) -> None:
    table = f"other_{family}"
    create, *inserts = statements_for(f"{DATABASE}.{table}", OTHER_COLUMNS[family])[1:]
    steps = written(stack.mysql, LAX, create, *inserts)
    name = (DATABASE, table)
    assert_same(selected(stack.mysql, name), logged(stack.mysql, steps, name))
    assert_same_map(stack.mysql, name, table_map_of(steps, name))


COMPUTED = (
    "a INT PRIMARY KEY, v VARCHAR(20) AS (CONCAT('v', a)) VIRTUAL, s DOUBLE AS (a / 3) STORED NOT NULL,"
    " j JSON AS (JSON_ARRAY(a, 1.50))"
)


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("keyed", "a INT, b VARCHAR(9), c VARBINARY(9), PRIMARY KEY (c(3), a, b(2))"),
        ("promoted", "a INT NOT NULL, b INT NOT NULL DEFAULT 5, c INT, UNIQUE (c), UNIQUE (b, a), UNIQUE (a)"),
        ("keyless", "a INT, b VARCHAR(9), c INT NOT NULL DEFAULT 0"),
        ("nullable", "a INT, b VARCHAR(9), c INT"),
        ("computed", COMPUTED),
        ("hidden", "a INT PRIMARY KEY, i INT INVISIBLE DEFAULT 7, n VARCHAR(9) INVISIBLE, INDEX ((a + 1))"),
        ("many", "a INT, " + ", ".join(f"c{n} INT DEFAULT {n}" for n in range(300))),
        ("quoted", "`a``b` INT, `$v 'ключ` VARCHAR(3), `%s` INT, `select` INT, `x.y` ENUM('it''s','%')"),
    ],
)  # fmt: skip
def test_keys_generated_and_invisible_columns(stack: Stack, table: str, columns: str) -> None:
    first = columns.split()[0]
    assert_both_ways(
        stack,
        table,
        f"CREATE TABLE {table} ({columns})",
        f"INSERT INTO {table} ({first}) VALUES (1), (2), (3)",
    )


def test_the_invisible_key_that_the_server_generates(stack: Stack) -> None:
    assert_both_ways(
        stack,
        "invisible_key",
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE invisible_key (a INT, b VARCHAR(9))",
        "INSERT INTO invisible_key VALUES (1, 'b'), (1, 'b'), (NULL, NULL)",
    )


def test_rows_from_before_statements_that_altered_the_table(stack: Stack) -> None:
    """They were never in the binlog in this form: an UPDATE of each writes it."""
    long = ",".join(f"'l{n}'" for n in range(300))
    run(
        stack.mysql,
        LAX,
        "CREATE TABLE altered (id INT PRIMARY KEY, e ENUM('a','b'), s SET('x'), j JSON, t DATETIME, d INT)",
        "INSERT INTO altered VALUES (1, 'a', 'x', '{\"a\": 1}', '2026-01-01', 1), (2, 'b', '', NULL, NULL, 2)",
        "ALTER TABLE altered ADD COLUMN n VARCHAR(9) NOT NULL DEFAULT 'née', ALGORITHM=INSTANT",
        "ALTER TABLE altered ADD COLUMN f DOUBLE DEFAULT 1e-300 FIRST, ALGORITHM=INSTANT",
        "ALTER TABLE altered ADD COLUMN z TIMESTAMP(3) NOT NULL DEFAULT '2000-01-01 00:00:00.125' AFTER e",
        f"ALTER TABLE altered MODIFY e ENUM('a','c','b',{long}), MODIFY s SET('y','x') CHARACTER SET utf16",
        "ALTER TABLE altered DROP COLUMN d, ALGORITHM=INSTANT",
        "ALTER TABLE altered MODIFY j JSON NOT NULL, MODIFY t DATETIME(5) NOT NULL, CHANGE n `näme` CHAR(9)",
        "ALTER TABLE altered MODIFY id BIGINT UNSIGNED FIRST",
        "INSERT INTO altered (id, j, t) VALUES (3, '[]', 0)",
        database=DATABASE,
    )
    assert_both_ways(stack, "altered", "UPDATE altered SET id = id + 1000")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_definition_that_is_known_from_rows(stack: Stack, family: str) -> None:
    """It lacks what rows do not show, such as display widths."""
    table, facts = f"by_rows_{family}", known_facts(stack.mysql)
    name = (DATABASE, table)
    steps = written(stack.mysql, *statements_for(f"{DATABASE}.{table}", FAMILIES[family]()))
    mapped = table_map_of(steps, name)
    defaults = Database(charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
    known = adopted(mapped, facts.charsets, database=defaults)
    assert_same(selected(stack.mysql, name, table=known), logged(stack.mysql, steps, name))


def test_labels_that_only_a_statement_shows(stack: Stack) -> None:
    """The schema history has them from the statement."""
    name, kinds = (DATABASE, "shown"), ("enum('?','a😀')", "set('😀','b')")
    steps = written(
        stack.mysql,
        f"CREATE TABLE shown (id INT PRIMARY KEY, e {kinds[0]}, s {kinds[1]}, t ENUM('c'))",
        "INSERT INTO shown VALUES (1, 2, 1, 1), (2, 1, 3, NULL)",
        database=DATABASE,
    )
    known = definition_of(stack.mysql, name, known_facts(stack.mysql))
    first, enum, members, last = known.columns
    columns = (
        first,
        replace(enum, exact_type=kinds[0]),
        replace(members, exact_type=kinds[1]),
        last,
    )
    found = selected(stack.mysql, name, table=replace(known, columns=columns))
    assert_same(found, logged(stack.mysql, steps, name))


def test_a_label_that_the_server_cannot_print_is_refused_by_name(stack: Stack) -> None:
    run(
        stack.mysql,
        "CREATE TABLE unprinted (id INT PRIMARY KEY, e ENUM('a', '😀'))",
        database=DATABASE,
    )
    with pytest.raises(
        SnapshotUnsupported, match=r"label of column 'e'.*\[table=snapshot\.unprinted\]"
    ):
        selected_table(stack.mysql, (DATABASE, "unprinted"))


def test_rows_of_another_definition_are_refused_by_name(stack: Stack) -> None:
    facts, name = known_facts(stack.mysql), (DATABASE, "replaced")
    run(
        stack.mysql,
        "CREATE TABLE replaced (id INT PRIMARY KEY, d DATE)",
        "INSERT INTO replaced VALUES (1, '2026-11-27')",
        database=DATABASE,
    )
    before = definition_of(stack.mysql, name, facts)
    run(stack.mysql, "ALTER TABLE replaced MODIFY d DATETIME", database=DATABASE)
    made = selected_table(stack.mysql, name, before)
    assert (
        made.difference([FieldType.LONG, FieldType.DATETIME])
        == "a SELECT returns column 'd' with the type 12"
    )
    with pytest.raises(AssertionError):
        packets_of(stack.mysql, made, name)


def test_an_event_has_the_bytes_that_it_may_have(stack: Stack) -> None:
    name = (DATABASE, "numbers")
    made = selected_table(stack.mysql, name)
    encoder = PacketEncoder(parse_table_map(made.table_map))
    blocks = packets_of(stack.mysql, made, name).blocks
    bodies = list(encoder.bodies(b"".join(blocks), most_bytes=1000))
    # A head of 12 bytes, and 5 for each row.
    assert {len(body) for body in bodies[:-1]} == {12 + 5 * 197}
    assert sum(len(body) - 12 for body in bodies) == 5 * 5000
