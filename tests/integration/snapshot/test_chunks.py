"""Chunks by key: each row of a table is in exactly one, whatever the type and collation of its key."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Any

import pytest

from connectors.errors import SnapshotUnsupported, SourceLost
from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.ddl.definition import Table
from connectors.mysql.gtid import GtidSet
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.select import chunk_reader
from connectors.mysql.select.chunk_reader import (
    ChunkReader,
    DefinitionChanged,
    ReadChunk,
    random_keys,
)
from connectors.mysql.select.load_limits import LoadGate, LoadLimits
from devstack import Stack
from tests.harness.sql import ask, run
from tests.integration.snapshot.both import DATABASE, LAX, definition_of, known_facts
from tests.integration.worker.source import address_of

KEYS = {
    "int": ("k INT", ["-2147483648", "-1", "0", "7", "2147483647"]),
    "unsigned": ("k BIGINT UNSIGNED", ["0", "9223372036854775808", "18446744073709551615", "5"]),
    "decimal": ("k DECIMAL(65,30)", ["-1.5", "0", "1e-30", "99999999999999999999999999999999999", "0.1"]),
    "float": ("k FLOAT", ["0.1", "-0.1", "16777217", "1e-45", "3.4028234e38", "0.2"]),
    "double": ("k DOUBLE", ["0.1", "1e-300", "-1e300", "0.30000000000000004", "0.3", "5e-324"]),
    "date": ("k DATE", ["'0000-00-00'", "'2026-11-27'", "'2026-00-00'", "'9999-12-31'"]),
    "time": ("k TIME(6)", ["'-838:59:59'", "'-00:00:00.000001'", "'00:00:00'", "'838:59:59'"]),
    "datetime": ("k DATETIME(6)", ["'0000-00-00'", "'2026-11-27 01:02:03.000004'",
                 "'2026-11-27 01:02:03.000005'"]),
    "timestamp": ("k TIMESTAMP(3)", ["'2026-10-25 00:30:00.001'", "'2026-10-25 01:30:00.001'",
                  "'2026-10-25 02:30:00'"]),
    "year": ("k YEAR", ["0", "1901", "2026", "2155"]),
    "enum": ("k ENUM('z','a','m')", ["'z'", "'a'", "'m'"]),
    "set": ("k SET('z','a','m')", ["''", "'z'", "'a'", "'z,m'"]),
    "bit": ("k BIT(64)", ["0", "1", "18446744073709551615", "9223372036854775808"]),
    "binary": ("k VARBINARY(20)", ["''", "X'00'", "X'0000'", "X'ff'", "X'27'", "X'5c'"]),
    "fixed": ("k BINARY(3)", ["X'00'", "X'000001'", "X'ff'", "'a'"]),
    "padded": ("k VARCHAR(20) COLLATE utf8mb4_general_ci", ["''", "'a'", "'a\\t'", "'B'", "'c '", "'é'"]),
    "unpadded": ("k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", ["''", "' '", "'a'", "'a '", "'B'", "'😀'"]),
    "cased": ("k VARCHAR(20) COLLATE utf8mb4_0900_as_cs", ["'a'", "'A'", "'ä'", "'Ä'", "'b'"]),
    "exact": ("k VARCHAR(20) COLLATE utf8mb4_bin", ["'a'", "'A'", "'ä'", "'%'", "'_'", "'\\\\'", "''''"]),
    "swedish": ("k CHAR(20) CHARACTER SET latin1", ["'a'", "'ö'", "'z'", "'å'"]),
    "wide": ("k VARCHAR(20) CHARACTER SET utf16", ["'a'", "'😀'", "'￿'", "'b'"]),
    "chinese": ("k VARCHAR(20) CHARACTER SET gbk", ["'中'", "'a'", "'国'", "X'815C'"]),
    "japanese": ("k VARCHAR(20) COLLATE utf8mb4_ja_0900_as_cs_ks", ["'か'", "'が'", "'カ'", "'ガ'"]),
    "composite": ("a INT, k VARCHAR(9), c DATE", ["1,'a','2026-01-01'", "1,'a','2026-01-02'",
                  "1,'b','2026-01-01'", "2,'A','2026-01-01'", "2,'','0000-00-00'"]),
    "hostile": ("`k``y` INT, `%s` INT", ["1,1", "1,2", "2,1"]),
}  # fmt: skip
"""Columns of a key, and rows."""


def reader_of(
    stack: Stack,
    table: str,
    definition: Table | None = None,
    where: str | None = None,
    **more: Any,
) -> ChunkReader:
    facts = known_facts(stack.mysql)
    name = (DATABASE, table)
    known = definition or definition_of(stack.mysql, name, facts)
    return ChunkReader(
        address_of(stack.mysql),
        name,
        charsets=facts.charsets,
        server=server_of(facts),
        definition=lambda: known,
        where=where,
        **more,
    )


def sizes(reader: ChunkReader, *, limit: int) -> list[int]:
    """The counts of rows of all chunks of a table."""
    found, after = list[int](), None
    while True:
        reader._limit = limit
        chunk = reader.read(after, GtidSet())
        assert chunk is not None
        assert bool(chunk.blocks) == (bool(chunk.rows) and chunk.spool is None)
        found.append(chunk.rows)
        if chunk.is_last:
            reader.close()
            return found
        after = chunk.last


@pytest.mark.parametrize(("limit", "is_bounded"), [(1, True), (2, False)])
@pytest.mark.parametrize("kind", KEYS)
def test_each_row_is_in_one_chunk_whatever_its_key(
    stack: Stack, kind: str, limit: int, is_bounded: bool
) -> None:
    columns, rows = KEYS[kind]
    names = ", ".join(one.split()[0] for one in columns.split(", "))
    table = f"keys_{kind}"
    run(
        stack.mysql,
        LAX,
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} ({columns}, v INT DEFAULT 1, PRIMARY KEY ({names}))",
        f"INSERT INTO {table} ({names}) VALUES {', '.join(f'({one})' for one in rows)}",
        database=DATABASE,
    )
    found = sizes(reader_of(stack, table, is_bounded=is_bounded), limit=limit)
    assert sum(found) == len(rows)
    assert set(found[:-1]) <= {limit}


def test_what_has_to_be_read_at_once_is_one_chunk_whatever_the_rate(stack: Stack) -> None:
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS at_once",
        "CREATE TABLE at_once (k INT PRIMARY KEY)",
        "INSERT INTO at_once VALUES (1), (2), (3), (4), (5)",
        database=DATABASE,
    )
    gate = LoadGate(LoadLimits(rows_per_second=2, threads_running=0), lambda _: None)
    for is_whole, rows in ((True, 4), (False, 2)):
        reader = reader_of(stack, "at_once", where="k > 1", gate=gate, is_whole=is_whole)
        with closing(reader):
            chunk = reader.read(None, GtidSet())
        assert chunk is not None
        assert (chunk.rows, chunk.is_last) == (rows, is_whole)


def test_text_keys_of_any_characters(stack: Stack) -> None:
    chance = random.Random(5)
    letters = "aAäÄßz zéÉ\0\t'\\%_😀中かガ-"
    for number, collation in enumerate(
        (
            "utf8mb4_0900_ai_ci",
            "utf8mb4_unicode_ci",
            "utf8mb4_bin",
            "utf8mb4_0900_as_cs",
            "utf8mb4_de_pb_0900_ai_ci",
        )
    ):
        table = f"any_text_{number}"
        values = {"".join(chance.choices(letters, k=chance.randrange(6))) for _ in range(400)}
        rows = ", ".join(
            f"({chance.randrange(3)}, _utf8mb4 X'{one.encode().hex()}')" for one in values
        )
        run(
            stack.mysql,
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} (a INT, k VARCHAR(20) COLLATE {collation}, PRIMARY KEY (a, k))",
            f"INSERT IGNORE INTO {table} VALUES {rows}",
            database=DATABASE,
        )
        ((count,),) = ask(stack.mysql, f"SELECT COUNT(*) FROM {DATABASE}.{table}")
        for is_bounded in (False, True):
            reader = reader_of(stack, table, is_bounded=is_bounded)
            assert sum(sizes(reader, limit=7)) == count


@pytest.mark.parametrize("key", ["a, k", "k, a", "k"])
def test_rows_after_the_last_one_of_the_beginning_are_omitted(stack: Stack, key: str) -> None:
    """They are in the stream; else a table that grows as fast as it is read would have no end."""
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS longer",
        f"CREATE TABLE longer (a INT, k VARCHAR(20), v INT, PRIMARY KEY ({key}))",
        "INSERT INTO longer SELECT n DIV 7, LPAD(n, 5, '0'), 0 FROM numbers LIMIT 40",
        database=DATABASE,
    )
    with closing(reader_of(stack, "longer", is_bounded=True, keeps_keys=True)) as reader:
        found, after, is_last = list[tuple[str, ...]](), None, False
        for chunks in range(20):
            reader._limit = 4
            chunk = reader.read(after, GtidSet())
            assert chunk is not None
            found += chunk.keys
            after, is_last = chunk.last or after, chunk.is_last
            if is_last:
                break
            # As many as were read, after all others in each order.
            later = f"LPAD(n + {100 * chunks + 100}, 5, '0')"
            run(
                stack.mysql,
                f"INSERT INTO longer SELECT 100, {later}, 1 FROM numbers LIMIT 4",
                database=DATABASE,
            )
        assert is_last
    assert len(set(found)) == len(found) == 40


def test_the_last_row_of_another_order_of_the_key_is_another_one(stack: Stack) -> None:
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS turned",
        "CREATE TABLE turned (a INT, b INT, PRIMARY KEY (a))",
        "INSERT INTO turned SELECT n, 1000 - n FROM numbers LIMIT 20",
        database=DATABASE,
    )
    facts, name = known_facts(stack.mysql), (DATABASE, "turned")
    with closing(reader_of(stack, "turned", is_bounded=True)) as reader:
        reader._limit = 5
        first = reader.read(None, GtidSet())
        assert first is not None
        reader.rest()
        run(
            stack.mysql,
            "ALTER TABLE turned DROP PRIMARY KEY, ADD PRIMARY KEY (b)",
            database=DATABASE,
        )
        after = definition_of(stack.mysql, name, facts)
        reader._definition = lambda: after
        found, last = 0, first.last
        while True:
            reader._limit = 6
            chunk = reader.read(last, GtidSet())
            assert chunk is not None
            found, last = found + chunk.rows, chunk.last
            if chunk.is_last:
                break
    assert found == 20


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a INT, b INT, PRIMARY KEY (a)", "DROP PRIMARY KEY, ADD PRIMARY KEY (b)"),
        ("a INT, b INT, PRIMARY KEY (a)", "DROP PRIMARY KEY, ADD PRIMARY KEY (a, b)"),
        ("a INT, b INT, PRIMARY KEY (a, b)", "DROP PRIMARY KEY, ADD PRIMARY KEY (b)"),
        ("a INT, b INT, PRIMARY KEY (a)", "DROP PRIMARY KEY"),
        ("a INT, b INT, PRIMARY KEY (b)", "MODIFY b VARCHAR(9)"),
        (
            "a INT, b VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, PRIMARY KEY (b)",
            "MODIFY b VARCHAR(9) COLLATE utf8mb4_bin",
        ),
    ],
)
def test_a_table_whose_key_has_another_order_since_is_read_from_its_first_row(
    stack: Stack, before: str, after: str
) -> None:
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS ordered",
        f"CREATE TABLE ordered ({before})",
        "INSERT INTO ordered SELECT n, 1000 - n FROM numbers LIMIT 20",
        database=DATABASE,
    )
    reader = reader_of(stack, "ordered")
    reader._limit = 5
    first = reader.read(None, GtidSet())
    assert first is not None
    reader._limit = 5
    same = reader.read(first.last, GtidSet())
    assert same is not None
    reader.close()
    run(stack.mysql, f"ALTER TABLE ordered {after}", database=DATABASE)
    reader = reader_of(stack, "ordered")
    reader._limit = 1_000
    again = reader.read(same.last, GtidSet())
    assert again is not None
    reader.close()
    ((count,),) = ask(stack.mysql, f"SELECT COUNT(*) FROM {DATABASE}.ordered")
    assert (first.rows, same.rows, again.rows) == (5, 5, count)


def test_a_chunk_is_found_by_the_key_and_not_by_reading_the_table(stack: Stack) -> None:
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS ranged",
        "CREATE TABLE ranged (a INT, k VARCHAR(20), v INT, PRIMARY KEY (a, k), INDEX (v))",
        "INSERT INTO ranged SELECT n, CONCAT('k', n), 1 FROM numbers",
        "ANALYZE TABLE ranged",
        database=DATABASE,
    )
    reader = reader_of(stack, "ranged")
    first = reader.read(None, GtidSet())
    reader.close()
    assert first is not None
    assert first.last is not None
    # The counts are those of a connection.
    reader = reader_of(stack, "ranged")
    reader._limit = 100
    reader.read((first.last[0], "2500", "_utf8mb4 X'6b'"), GtidSet())
    assert reader._connection is not None
    with reader._connection.cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
        handled = {name: int(value) for name, value in cursor.fetchall()}
    reader.close()
    assert handled[b"Handler_read_next"] < 110, handled
    assert handled[b"Handler_read_rnd_next"] == 0, handled


def test_a_chunk_has_few_bytes_whatever_the_size_of_its_rows(stack: Stack) -> None:
    small, large = 300, 40
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS growing",
        "CREATE TABLE growing (a INT PRIMARY KEY, b MEDIUMBLOB)",
        *(f"INSERT INTO growing VALUES ({number}, 'x')" for number in range(small)),
        *(
            f"INSERT INTO growing VALUES ({number}, REPEAT('x', 500000))"
            for number in range(small, small + large)
        ),
        database=DATABASE,
    )
    with closing(reader_of(stack, "growing", keeps_keys=True)) as reader:
        chunks, after = list[ReadChunk](), None
        while not chunks or not chunks[-1].is_last:
            reader._limit = 20_000
            chunk = reader.read(after, GtidSet())
            assert chunk is not None
            chunks.append(chunk)
            after = chunk.last
        rows = [int(key) for chunk in chunks for (key,) in chunk.keys]
        assert rows == list(range(small + large))
        assert len(chunks) >= 4
        most = chunk_reader._MOST_BYTES + (1 << 20)
        assert max(sum(map(len, chunk.blocks)) for chunk in chunks) < most
        reader.read(chunks[1].last, GtidSet())
        assert reader._limit == 3, "the next one is chosen by the size of the rows"


def test_the_first_chunk_has_rows_by_their_size_as_the_server_states_it(stack: Stack) -> None:
    run(
        stack.mysql,
        "CREATE TABLE sized (a INT PRIMARY KEY, b MEDIUMBLOB)",
        "INSERT INTO sized WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900)"
        " SELECT n, REPEAT('x', 10000) FROM n",
        "ANALYZE TABLE sized",
        "SET SESSION information_schema_stats_expiry = 0",
        "SELECT avg_row_length FROM information_schema.tables WHERE table_name = 'sized'",
        database=DATABASE,
    )
    with closing(reader_of(stack, "sized")) as reader:
        chunk = reader.read(None, GtidSet())
    assert chunk is not None
    assert 50 < chunk.rows < 200


def test_a_column_of_another_type_is_found_before_any_row_is_read(stack: Stack) -> None:
    run(
        stack.mysql,
        "CREATE TABLE retyped (a INT PRIMARY KEY, b INT)",
        "INSERT INTO retyped VALUES (1, 1)",
        database=DATABASE,
    )
    before = definition_of(stack.mysql, (DATABASE, "retyped"), known_facts(stack.mysql))
    with closing(reader_of(stack, "retyped", before)) as reader:
        assert reader.read(None, GtidSet()) is not None
        run(stack.mysql, "ALTER TABLE retyped MODIFY b BIGINT", database=DATABASE)
        with pytest.raises(DefinitionChanged, match="column 'b' with the type 8"):
            reader.read(None, GtidSet())
        run(stack.mysql, "ALTER TABLE retyped MODIFY b INT", database=DATABASE)
        assert reader.read(None, GtidSet()) is not None, "by a new connection"


def test_a_definition_that_the_server_no_longer_has(stack: Stack) -> None:
    run(stack.mysql, "CREATE TABLE changing (a INT PRIMARY KEY, b INT)", database=DATABASE)
    reader = reader_of(stack, "changing")
    assert reader.read(None, GtidSet()) is not None
    run(stack.mysql, "ALTER TABLE changing DROP COLUMN b", database=DATABASE)
    with pytest.raises(DefinitionChanged):
        reader.read(None, GtidSet())
    run(stack.mysql, "DROP TABLE changing", database=DATABASE)
    with pytest.raises(DefinitionChanged):
        reader.read(None, GtidSet())


def test_the_select_waits_for_the_transactions_that_it_is_to_see(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(stack.mysql, "CREATE TABLE seen (a INT PRIMARY KEY)", database=DATABASE)
    reader = reader_of(stack, "seen")
    ((executed,),) = ask(stack.mysql, "SELECT @@GLOBAL.gtid_executed")
    now = GtidSet.parse(executed)
    assert reader.read(None, now) is not None
    monkeypatch.setattr("connectors.mysql.select.read_views.VISIBLE_SECONDS", 0.1)
    with pytest.raises(SourceLost, match="it has not shown within"):
        reader.read(None, GtidSet.parse(f"{'0' * 8}-0000-0000-0000-{'0' * 12}:1"))


def test_conditions_choose_rows_of_each_chunk_and_cannot_widen_it(
    stack: Stack,
) -> None:
    run(
        stack.mysql,
        f"CREATE TABLE {DATABASE}.chosen (id int PRIMARY KEY, v int)",
        f"INSERT INTO {DATABASE}.chosen VALUES {', '.join(f'({n}, {n % 4})' for n in range(200))}",
    )
    definition = definition_of(stack.mysql, (DATABASE, "chosen"), known_facts(stack.mysql))
    for where, rows in (
        ("v = 1 OR v = 2 -- few", 100), ("v = 9", 0), ("id IN (1, 199, 500) # some", 2),
    ):  # fmt: skip
        reader = reader_of(stack, "chosen", definition, where=where)
        assert sum(sizes(reader, limit=7)) == rows
    reader = reader_of(stack, "chosen", definition)
    first = reader.read(None, GtidSet())
    assert first is not None
    assert first.estimate is not None
    assert 100 <= first.estimate <= 400
    second = reader.read(first.last, GtidSet())
    assert second is not None
    assert second.estimate is None
    reader.close()


def test_an_error_of_the_server_about_a_masked_table_quotes_no_value(stack: Stack) -> None:
    run(
        stack.mysql,
        "DROP TABLE IF EXISTS quoted",
        "CREATE TABLE quoted (id INT PRIMARY KEY, v VARCHAR(40))",
        "INSERT INTO quoted VALUES (1, 'CanaryBird')",
        database=DATABASE,
    )
    for is_masked in (False, True):
        reader = reader_of(stack, "quoted", where="UUID_TO_BIN(v) = ''", is_masked=is_masked)
        with closing(reader), pytest.raises(SnapshotUnsupported) as raised:
            reader.read(None, GtidSet())
        assert ("Canary" in str(raised.value)) == (not is_masked), str(raised.value)


@pytest.mark.parametrize("where", ["x = 1", "v = (SELECT 1 UNION SELECT 2)", "id = 1) OR (1 = 1"])
def test_a_condition_that_the_server_cannot_evaluate_is_named(stack: Stack, where: str) -> None:
    run(
        stack.mysql,
        f"CREATE TABLE IF NOT EXISTS {DATABASE}.odd (id int PRIMARY KEY, v int)",
        f"REPLACE INTO {DATABASE}.odd VALUES (1, 1), (2, 2)",
    )
    reader = reader_of(stack, "odd", where=where)
    with pytest.raises(SnapshotUnsupported, match="its condition cannot be evaluated"):
        reader.read(None, GtidSet())
    reader.close()


def test_samples_begin_at_random_rows(stack: Stack) -> None:
    run(
        stack.mysql,
        f"CREATE TABLE {DATABASE}.sampled (id int PRIMARY KEY)",
        f"INSERT INTO {DATABASE}.sampled VALUES {', '.join(f'({n})' for n in range(300))}",
    )
    facts, name = known_facts(stack.mysql), (DATABASE, "sampled")
    keys = random_keys(
        address_of(stack.mysql), name, definition_of(stack.mysql, name, facts),
        charsets=facts.charsets, server=server_of(facts), count=12, chance=random.Random(3),
    )  # fmt: skip
    reader = reader_of(stack, "sampled")
    found = {chunk.rows for one in keys if (chunk := reader.read(one, GtidSet())) is not None}
    assert len(found) > 6, "as many rows follow as the sample is from the end"
    reader.close()


def test_labels_are_those_of_rows_and_a_row_with_one_that_none_had_is_read_again(
    stack: Stack,
) -> None:
    kinds = "e ENUM('?', '😀', 'c', 'd😁'), s SET('?', '🎉', 'x', '😎?') CHARACTER SET utf16"
    name = (DATABASE, "labelled")
    run(
        stack.mysql,
        f"CREATE TABLE labelled (id INT PRIMARY KEY, {kinds}, t ENUM('?') CHARACTER SET latin1)",
        "INSERT INTO labelled VALUES (1, '😀', 'x,🎉', '?'), (2, '?', '?', NULL), (3, NULL, '', NULL)",
        database=DATABASE,
    )
    known = definition_of(stack.mysql, name, known_facts(stack.mysql))
    reader = reader_of(stack, "labelled", known)

    def labels() -> list[list[str]]:
        chunk = reader.read(None, GtidSet())
        assert chunk is not None
        columns = parse_table_map(chunk.table_map).columns[1:3]
        return [
            [label.decode(charset) for label in column.labels or ()]
            for column, charset in zip(columns, ("utf8", "utf-16-be"), strict=True)
        ]

    with closing(reader):
        # No row has the last labels, so they are as printed.
        assert labels() == [["?", "😀", "c", "d?"], ["?", "🎉", "x", "??"]]
        for row, last in (("4, 'd😁', NULL", "??"), ("5, NULL, 'x,😎?'", "😎?")):
            run(stack.mysql, f"INSERT INTO labelled (id, e, s) VALUES ({row})", database=DATABASE)
            with pytest.raises(DefinitionChanged, match="the first row has a label of column"):
                labels()
            assert labels() == [["?", "😀", "c", "d😁"], ["?", "🎉", "x", last]]
