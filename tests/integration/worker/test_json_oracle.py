"""JSON: the text we make of MySQL's binary documents is the text MySQL makes of them."""

import json
import random
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from connectors.mysql.types.json_binary import double_text
from devstack import Stack
from tests.harness.sql import connected, run
from tests.integration.worker.source import decoded, written

DATABASE = "oracle_json"

DOCUMENTS = [
    "'null'", "'true'", "'false'", "'0'", "'-1'", "'32767'", "'-32768'", "'32768'", "'65535'", "'65536'",
    "'2147483647'", "'-2147483648'", "'4294967296'", "'9223372036854775807'", "'-9223372036854775808'",
    "'18446744073709551615'", "'1.0'", "'-0.0'", "'1e100'", "'1.5e-9'", "'\"\"'", "'{}'", "'[]'",
    "'\"Zoë 😀 ﷽\"'", "'\"\\\\u0001\\\\u001f\\\\b\\\\f\\\\n\\\\r\\\\t\\\\\\\\\\\\\"/\\\\u007f\"'",
    "'{\"\": 1, \"ключ\": {\"😀\": [1, [2, [3, {}]]]}, \"a\\\\\"b\": null}'",
    "CAST(CAST('12.50' AS DECIMAL(10,2)) AS JSON)", "CAST(CAST('-0.0001' AS DECIMAL(65,30)) AS JSON)",
    "CAST(CAST('99999999999999999999' AS DECIMAL(65,0)) AS JSON)",
    "CAST(DATE'2026-11-21' AS JSON)", "CAST(TIMESTAMP'2026-11-21 10:15:00.123456' AS JSON)",
    "CAST(TIME'-838:59:59' AS JSON)", "CAST(CAST('12:13:14.5' AS TIME(1)) AS JSON)",
    "JSON_ARRAY(x'00ff', b'101', CAST('x' AS BINARY), POINT(1, 2), 1.50, NOW(6), CURDATE(), TRUE)",
    "JSON_OBJECT('t', CAST('-00:00:00.5' AS TIME(6)), 'y', CAST(2026 AS YEAR), 'd', 1e0, 'n', NULL)",
    "JSON_OBJECT('long', REPEAT('x', 70000), 'b', 2, 'ints', JSON_ARRAY(1, 70000, -70000, 5000000000))",
    "JSON_ARRAY(REPEAT('x', 127), REPEAT('x', 128), REPEAT('x', 16384), REPEAT('é', 40000))",
    "(SELECT JSON_OBJECTAGG(CONCAT('key', n), n * 1000) FROM numbers)",
    "(SELECT JSON_ARRAYAGG(JSON_OBJECT('n', n, 'half', n / 2, 'e', n * 1e-7)) FROM numbers)",
    "CONCAT(REPEAT('[', 99), REPEAT(']', 99))", "NULL",
    "JSON_ARRAY(CAST(REPEAT('x', 57) AS BINARY), CAST(REPEAT('x', 58) AS BINARY))",
    "JSON_OBJECT('two', CAST(REPEAT('x', 114) AS BINARY), 'more', CAST(REPEAT('x', 5000) AS BINARY))",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def database(stack: Stack) -> None:
    run(
        stack.mysql,
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.numbers (n int primary key)",
        "SET SESSION cte_max_recursion_depth = 10000",
        f"INSERT INTO {DATABASE}.numbers WITH RECURSIVE c(n) AS"
        " (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000) SELECT n FROM c",
    )


def test_a_document_has_the_text_that_the_server_prints(stack: Stack) -> None:
    steps = written(
        stack.mysql,
        "CREATE TABLE documents (id int primary key, j json)",
        *(f"INSERT INTO documents VALUES ({n}, {one})" for n, one in enumerate(DOCUMENTS)),
        database=DATABASE,
    )
    ours = {row.after()["id"]: row.after()["j"] for row in decoded(stack.mysql, steps)}
    theirs = printed(stack, "documents")
    assert ours.keys() == theirs.keys()
    assert not [(ours[n], theirs[n]) for n in theirs if ours[n] != theirs[n]]
    for text in filter(None, ours.values()):
        json.loads(text, parse_float=Decimal)


def doubles() -> Iterator[float]:
    rng = random.Random(4711)
    yield from (
        0.0,
        -0.0,
        5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        123456.789,
        100.0,
    )
    for exponent in range(-25, 25):
        yield from (mantissa * 10.0**exponent for mantissa in (1, -1.5, 1.2345678901234567))
    while True:
        yield rng.uniform(-1, 1) * 10.0 ** rng.randint(-20, 25)
        yield float(rng.randint(-(10**18), 10**18))
        yield rng.uniform(-1e16, 1e16)
        (any_bits,) = struct.unpack("<d", rng.randbytes(8))
        if any_bits - any_bits == 0:
            yield any_bits


def test_a_double_has_the_digits_that_the_server_prints(stack: Stack) -> None:
    source = doubles()
    values = [next(source) for _ in range(4000)]
    written_as = ",".join(
        text if "." in text or "e" in text else f"{text}.0" for text in map(repr, values)
    )
    with connected(stack.mysql) as cursor:
        cursor.execute("SELECT CAST(CAST(%s AS JSON) AS CHAR)", (f"[{written_as}]",))
        theirs = cursor.fetchone()[0][1:-1].split(", ")
    assert [
        (double_text(v), t) for v, t in zip(values, theirs, strict=True) if double_text(v) != t
    ] == []


def printed(stack: Stack, table: str) -> dict[int, Any]:
    with connected(stack.mysql, database=DATABASE) as cursor:
        cursor.execute(f"SELECT id, CAST(j AS CHAR) FROM {table}")
        return dict(cursor.fetchall())
