"""JSON documents and numbers are the same whether they come from the binlog or from SELECT."""

import random
import struct

import pytest

from devstack import Stack
from tests.integration.snapshot.both import (
    DATABASE,
    assert_both_ways,
    assert_same,
    logged,
    selected,
)
from tests.integration.worker.source import written
from tests.integration.worker.test_json_oracle import DOCUMENTS, doubles


def assert_documents(stack: Stack, table: str, documents: list[str]) -> None:
    listed = [one.replace("numbers", f"{DATABASE}.numbers") for one in documents]
    name = (DATABASE, table)
    steps = written(
        stack.mysql,
        f"CREATE TABLE {table} (id INT PRIMARY KEY, j JSON)",
        *(f"INSERT INTO {table} VALUES ({n}, {one})" for n, one in enumerate(listed)),
        database=DATABASE,
    )
    assert_same(selected(stack.mysql, name), logged(stack.mysql, steps, name))


def test_documents(stack: Stack) -> None:
    assert_documents(stack, "documents", DOCUMENTS)


MORE_DOCUMENTS = [
    "'{\"a\": 1, \"a\": 2, \"b\": {\"c\": 1, \"c\": [2]}}'",
    "'{\"bb\": 1, \"a\": 2, \"é\": 3, \"B\": 4, \"ccc\": 5, \"\": 6}'",
    "'[1e20, 1e15, 1e14, 123456789012345678, 1e-5, 1e-16, 0.1, -1.0, 100.0, 1e300, 5e-324]'",
    "'[18446744073709551616, -9223372036854775809, 123456789012345678901234567890]'",
    "JSON_ARRAY(CAST('1e-5' AS DECIMAL(65,30)), CAST(0 AS DECIMAL(9,2)), CAST(-5 AS DECIMAL(3,0)), -0.000)",
    "JSON_ARRAY(CAST(REPEAT('9', 65) AS DECIMAL(65,0)), CAST(-0.1 AS DECIMAL(30,30)), 1.0, 1.00, 1e0)",
    "JSON_ARRAY(TIMESTAMP'0001-01-01 00:00:00', TIME'838:59:59', DATE'9999-12-31', CAST(2026 AS YEAR))",
    "JSON_ARRAY(ST_GeomFromText('POINT(1 2)'), x'', b'1', CAST('' AS BINARY), CAST(1 AS UNSIGNED))",
    "CONCAT(REPEAT('{\"a\":', 99), '\"', REPEAT('é', 40000), '\"', REPEAT('}', 99))",
    "CONCAT(REPEAT('[', 98), '[1, 70000, -70000]', REPEAT(']', 98))",
    "(SELECT JSON_ARRAYAGG(REPEAT('x', n)) FROM numbers)",
    "(SELECT JSON_OBJECTAGG(CONCAT(n, REPEAT('k', 200)), JSON_ARRAY(n * 30, n * -30, n / 7)) FROM numbers)",
    "JSON_OBJECT('a', REPEAT('x', 65520))", "JSON_OBJECT('a', REPEAT('x', 65521))",
    "JSON_OBJECT('a', REPEAT('x', 65519), 'b', 70000)", "JSON_ARRAY(REPEAT('x', 65524), 1)",
    "JSON_ARRAY(REPEAT('x', 65518), 1)", "JSON_ARRAY(REPEAT('x', 65519), -1, 70000, -70000)",
    "JSON_OBJECT(REPEAT('k', 65535), 1)", "'\"\\\\ud83d\\\\ude00 \\\\u00e9 \\\\/ \\\\u2028\"'",
    "JSON_ARRAY(REPEAT('x', 2097152), REPEAT('y', 16383), REPEAT('z', 16384))",
]  # fmt: skip


def test_documents_at_the_limits_of_their_format(stack: Stack) -> None:
    assert_documents(stack, "more_documents", MORE_DOCUMENTS)


def test_a_document_of_a_null_that_became_not_null(stack: Stack) -> None:
    assert_both_ways(
        stack,
        "empty_documents",
        "SET SESSION sql_mode = ''",
        "CREATE TABLE empty_documents (id INT PRIMARY KEY, j JSON)",
        "INSERT INTO empty_documents VALUES (1, NULL), (2, 'null')",
        "ALTER TABLE empty_documents MODIFY j JSON NOT NULL",
        "UPDATE empty_documents SET id = id + 10",
    )


def numbers_at_random(rng: random.Random, count: int) -> list[str]:
    """Members of a document: doubles of any bits, decimals and integers of any size."""
    source, found = doubles(), list[str]()
    while len(found) < count:
        value = next(source)
        found.append(f"{value!r}" if "." in repr(value) or "e" in repr(value) else f"{value!r}.0")
        found.append(str(rng.randrange(-(1 << 63), 1 << 64) >> rng.randrange(64)))
        scale = rng.randrange(31)
        digits = "".join(rng.choices("0123456789", k=rng.randrange(1, 66 - scale)))
        part = "".join(rng.choices("0123456789", k=scale))
        found.append(
            f"CAST('{rng.choice(['', '-'])}{digits}.{part}' AS DECIMAL({len(digits) + scale},{scale}))"
        )
    return found


def test_numbers_of_any_size_in_documents_and_columns(stack: Stack) -> None:
    check_numbers(stack, "any_numbers", seed=4711, count=1500)


@pytest.mark.long("test_numbers_of_any_size_in_documents_and_columns has a few of them")
@pytest.mark.parametrize("seed", range(20))
def test_many_numbers_of_any_size(stack: Stack, seed: int) -> None:
    check_numbers(stack, f"numbers_{seed}", seed=seed, count=6000)


def check_numbers(stack: Stack, table: str, *, seed: int, count: int) -> None:
    rng = random.Random(seed)
    numbers = numbers_at_random(rng, count)
    rows = [
        (n, _bits(rng, "<f"), _bits(rng, "<d"), f"JSON_ARRAY({', '.join(numbers[n::100])})")
        for n in range(100)
    ]
    values = ", ".join(
        f"({n}, {f!r}, {d!r}, {j}, {_time(rng)}, {_time(rng)})" for n, f, d, j in rows
    )
    assert_both_ways(
        stack,
        table,
        f"CREATE TABLE {table} (id INT PRIMARY KEY, f FLOAT, d DOUBLE, j JSON, t TIME(6), u TIME(3))",
        f"INSERT INTO {table} VALUES {values}",
    )


def _bits(rng: random.Random, format_: str) -> float:
    while True:
        (value,) = struct.unpack(format_, rng.randbytes(struct.calcsize(format_)))
        if value - value == 0:
            return float(value)


def _time(rng: random.Random) -> str:
    return f"'{rng.choice('- ').strip()}{rng.randrange(839)}:{rng.randrange(60)}:{rng.random() * 59:.6f}'"
