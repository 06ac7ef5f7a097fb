"""Partial JSON updates: the document rebuilt from before image and diffs equals the server's."""

from __future__ import annotations

import random
from typing import Any

import pytest

from connectors.errors import RowUnreadable
from connectors.mysql.rows.counter import row_count
from connectors.mysql.rows.decoder import ABSENT
from devstack import Stack
from tests.harness.sql import connected, run
from tests.integration.worker.source import decoded, written
from tests.steps import Rows

DATABASE = "partial_json"
PARTIAL = "SET SESSION binlog_row_value_options = PARTIAL_JSON"
BIG = "x" * 200
"""Enough that a change inside is smaller than the whole document, or the server writes the whole."""

CHANGES = [
    "JSON_SET(j, '$.name', 'Zoë')",
    "JSON_SET(j, '$.n', 1.50)",
    "JSON_REPLACE(j, '$.list[1]', JSON_OBJECT('deep', 18446744073709551615))",
    "JSON_REMOVE(j, '$.list[0]')",
    "JSON_REMOVE(j, '$.\"a.b c\"')",
    "JSON_SET(j, '$.aa', TRUE, '$.b', NULL)",
    "JSON_SET(j, '$.\"quo\\\\\"te\"', 'new')",
    "JSON_SET(j, '$.list[9]', CAST('2026-01-02 03:04:05.6' AS DATETIME(6)))",
    "JSON_SET(JSON_REMOVE(j, '$.pad'), '$.n', CAST(12.50 AS DECIMAL(9,3)))",
    "JSON_REPLACE(j, '$.o.p.q', JSON_ARRAY(1, -2, 1e100))",
]
DOCUMENT = (
    f'{{"pad": "{BIG}", "name": "Ann", "n": 7, "list": [1, 2, {{"x": []}}], "a.b c": 1,'
    ' "quo\\"te": "old", "o": {"p": {"q": 0}}}'
)


@pytest.fixture(scope="module", autouse=True)
def database(stack: Stack) -> None:
    run(stack.mysql, f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}")


def held(stack: Stack, table: str) -> list[tuple[Any, ...]]:
    with connected(stack.mysql) as cursor:
        cursor.execute(f"SELECT id, CAST(j AS CHAR), CAST(k AS CHAR) FROM {table} ORDER BY id")
        return list(cursor.fetchall())


def filled(stack: Stack, name: str, documents: list[str]) -> str:
    table = f"{DATABASE}.{name}"
    run(stack.mysql, f"CREATE TABLE {table} (id int PRIMARY KEY, j json, t int, k json)")
    with connected(stack.mysql) as cursor:
        for n, document in enumerate(documents):
            cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, 0, %s)", (n, document, document))
    return table


def is_partial(steps: list[Any]) -> bool:
    return any(isinstance(step, Rows) and step.event_type == 39 for step in steps)


@pytest.mark.parametrize("image", ["FULL", "NOBLOB"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_patched_document_is_what_the_server_holds(stack: Stack, image: str, change: str) -> None:
    table = filled(stack, f"t{CHANGES.index(change)}_{image}".lower(), [DOCUMENT] * 2)
    steps = written(
        stack.mysql,
        PARTIAL,
        f"SET SESSION binlog_row_image = {image}",
        f"UPDATE {table} SET j = {change}, t = t + 1",
        f"UPDATE {table} SET k = {change.replace('(j', '(k')} WHERE id = 1",
    )
    assert is_partial(steps)
    latest: dict[int, dict[str, Any]] = {}
    for row in decoded(stack.mysql, steps):
        present = {name: value for name, value in row.after().items() if value is not ABSENT}
        latest.setdefault(present["id"], {}).update(present)
    rows = {id_: (j, k) for id_, j, k in held(stack, table)}
    assert {id_: row["j"] for id_, row in latest.items()} == {
        id_: j for id_, (j, _) in rows.items()
    }
    assert latest[1]["k"] == rows[1][1]


def test_random_changes_in_random_documents_end_as_the_server_has_them(stack: Stack) -> None:
    rng = random.Random(20261121)
    table = filled(stack, "random", [DOCUMENT] * 20)
    statements = [PARTIAL]
    for _ in range(150):
        path = rng.choice(
            ["$.name", "$.n", "$.list[0]", "$.list[2]", "$.o.p.q", "$.o.new", "$.zz", "$.list"]
        )
        value = rng.choice(
            ["1", "'v'", "JSON_ARRAY(1,2)", "JSON_OBJECT('k', 1)", "NULL", "-0.5e0", "TRUE"]
        )
        verb = rng.choice(["JSON_SET", "JSON_REPLACE", "JSON_REMOVE"])
        call = f"{verb}(j, '{path}')" if verb == "JSON_REMOVE" else f"{verb}(j, '{path}', {value})"
        statements.append(f"UPDATE {table} SET j = {call} WHERE id = {rng.randrange(20)}")
    steps = written(stack.mysql, *statements)
    assert is_partial(steps)
    latest = {row.after()["id"]: row.after()["j"] for row in decoded(stack.mysql, steps)}
    assert latest == {id_: j for id_, j, _ in held(stack, table) if id_ in latest}
    for step in steps:
        if isinstance(step, Rows):
            assert row_count(step.table_map, step.event_type, step.body) == 1


def test_a_partial_update_without_the_document_before_is_refused(stack: Stack) -> None:
    table = filled(stack, "minimal", [DOCUMENT])
    steps = written(
        stack.mysql,
        PARTIAL,
        "SET SESSION binlog_row_image = MINIMAL",
        f"UPDATE {table} SET j = JSON_SET(j, '$.n', 1)",
    )
    with pytest.raises(RowUnreadable, match="document before"):
        decoded(stack.mysql, steps)
