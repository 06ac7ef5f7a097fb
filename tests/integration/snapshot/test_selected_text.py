"""Text of every character set is the same whether it comes from the binlog or from SELECT."""

import pytest

from devstack import Stack
from tests.harness.sql import run
from tests.integration.auditing.wide import code_points
from tests.integration.snapshot.both import (
    DATABASE,
    LAX,
    assert_same,
    assert_same_map,
    logged,
    selected,
    table_map_of,
)
from tests.integration.worker.source import written
from tests.integration.worker.test_charsets_oracle import DOUBLE, SINGLE, UNICODE, sequences


def assert_characters(stack: Stack, charset: str, found: list[bytes]) -> None:
    table, name = f"`{charset}`", (DATABASE, charset)
    columns = "n INT PRIMARY KEY, t VARCHAR(40), c CHAR(40), l MEDIUMTEXT"
    labels = "e ENUM('a', '[é]', 'Ä\\\\'), s SET('x', '{Ö}')"
    statements = [LAX, f"CREATE TABLE {table} ({columns}, {labels}) CHARACTER SET {charset}"]
    for begin in range(0, len(found), 2000):
        part = enumerate(found[begin : begin + 2000], start=begin)
        values = ", ".join(
            f"({n}, x'{raw.hex()}', x'{raw.hex()}', x'{raw.hex()}', {n % 4}, {n % 4})"
            for n, raw in part
        )
        statements.append(f"INSERT IGNORE INTO {table} VALUES {values}")
    run(stack.mysql, f"DROP TABLE IF EXISTS {table}", database=DATABASE)
    steps = written(stack.mysql, *statements, database=DATABASE)
    assert_same(selected(stack.mysql, name, most=100_000), logged(stack.mysql, steps, name))
    assert_same_map(stack.mysql, name, table_map_of(steps, name))


def characters_of(charset: str, *, every: int) -> list[bytes]:
    if charset in UNICODE:
        return code_points(charset, every=every)
    return sequences(charset)[::every]


@pytest.mark.filterwarnings("ignore")  # PyMySQL warns of byte sequences that no column takes
@pytest.mark.parametrize("charset", [*SINGLE, *DOUBLE, *UNICODE])
def test_text_of_each_character_set(stack: Stack, charset: str) -> None:
    assert_characters(stack, charset, characters_of(charset, every=1 if charset in SINGLE else 29))


@pytest.mark.long("test_text_of_each_character_set has one of 29 sequences")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("charset", [*DOUBLE, *UNICODE])
def test_every_character_of_each_character_set(stack: Stack, charset: str) -> None:
    assert_characters(stack, charset, characters_of(charset, every=1))
