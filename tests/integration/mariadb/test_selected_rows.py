"""MariaDB's rows are the same whether they come from the binlog or from SELECT."""

from dataclasses import replace

import pytest

from connectors.errors import SnapshotUnsupported
from connectors.mysql.schema.baseline import server_of
from connectors.mysql.select.chunk_reader import ChunkReader
from devstack.mysql import Mysql
from tests.harness.sql import run
from tests.integration.mariadb.families import FAMILIES
from tests.integration.mariadb.source import written
from tests.integration.snapshot.both import (
    LAX,
    assert_same,
    assert_same_map,
    definition_of,
    known_facts,
    logged,
    selected,
    selected_table,
    table_map_of,
)
from tests.integration.snapshot.columns import OTHER_COLUMNS
from tests.integration.worker.families import statements_for
from tests.integration.worker.source import address_of, end_of

pytestmark = pytest.mark.stack

DATABASE = "snapshot"
# What other columns than these have is MySQL's.
SPELLINGS = ("digits", "paddings", "labels")


@pytest.fixture(scope="module", autouse=True)
def database(mariadb: Mysql) -> None:
    run(
        mariadb,
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
    )


def assert_both_ways(mariadb: Mysql, table: str, *statements: str) -> None:
    """Of the rows that the last statement writes: both ways and both table maps are alike."""
    name = (DATABASE, table)
    run(mariadb, LAX, *statements[:-1], database=DATABASE)
    steps = written(mariadb, LAX, f"USE {DATABASE}", statements[-1])
    assert_same(selected(mariadb, name), logged(mariadb, steps, name))
    assert_same_map(mariadb, name, table_map_of(steps, name))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_type_at_its_limits(mariadb: Mysql, family: str) -> None:
    name = (DATABASE, family)
    steps = written(mariadb, *statements_for(f"{DATABASE}.{family}", FAMILIES[family]()))
    assert_same(selected(mariadb, name), logged(mariadb, steps, name))
    if family != "compressed":
        # A compressed column's rows have another form, and the same values.
        assert_same_map(mariadb, name, table_map_of(steps, name))


@pytest.mark.parametrize("family", SPELLINGS)
def test_every_spelling_of_a_type(mariadb: Mysql, family: str) -> None:
    name = (DATABASE, f"other_{family}")
    create, *inserts = statements_for(f"{DATABASE}.other_{family}", OTHER_COLUMNS[family])[1:]
    steps = written(mariadb, LAX, create, *inserts)
    assert_same(selected(mariadb, name), logged(mariadb, steps, name))
    assert_same_map(mariadb, name, table_map_of(steps, name))


def test_a_vector(mariadb: Mysql) -> None:
    if known_facts(mariadb).variables["version"].startswith("10."):
        pytest.skip("this series has no vectors")
    assert_both_ways(
        mariadb,
        "vectors",
        "CREATE TABLE vectors (id INT PRIMARY KEY, v VECTOR(3))",
        "INSERT INTO vectors VALUES (1, VEC_FromText('[0.5,-1.25,3e38]')), (2, NULL)",
    )


def test_generated_and_invisible_columns_and_a_hash_that_is_no_column(mariadb: Mysql) -> None:
    assert_both_ways(
        mariadb,
        "computed",
        "CREATE TABLE computed (id INT PRIMARY KEY, v INT AS (id + 1), s DOUBLE AS (id / 3) PERSISTENT,"
        " i INT INVISIBLE DEFAULT 7)",
        "INSERT INTO computed (id) VALUES (1), (2)",
    )
    name = (DATABASE, "hashed")
    steps = written(
        mariadb,
        f"CREATE TABLE {DATABASE}.hashed (id INT PRIMARY KEY, t TEXT, UNIQUE (t))",
        f"INSERT INTO {DATABASE}.hashed VALUES (1, 'a'), (2, NULL)",
    )
    ours, theirs = selected(mariadb, name), logged(mariadb, steps, name)
    assert [row.image for row in ours] == [row.image[:2] for row in theirs]


def test_the_period_of_a_versioned_row(mariadb: Mysql) -> None:
    period = (
        ", a TIMESTAMP(6) GENERATED ALWAYS AS ROW START, b TIMESTAMP(6) GENERATED ALWAYS AS ROW END,"
        " PERIOD FOR SYSTEM_TIME (a, b)"
    )
    for table, more in (("implicit", ""), ("explicit", period)):
        assert_both_ways(
            mariadb,
            table,
            f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT{more}) WITH SYSTEM VERSIONING",
            f"INSERT INTO {table} (id, n) VALUES (1, 1), (2, 2)",
        )


def test_rows_from_before_statements_that_altered_the_table(mariadb: Mysql) -> None:
    assert_both_ways(
        mariadb,
        "altered",
        "CREATE TABLE altered (id INT PRIMARY KEY, e ENUM('a','b'), t TEXT, u UUID)",
        "INSERT INTO altered VALUES (1, 'a', 'x', '123e4567-e89b-12d3-a456-426655440000'), (2, 'b', '', NULL)",
        "ALTER TABLE altered ADD COLUMN f DOUBLE DEFAULT 1e-300 FIRST, ALGORITHM=INSTANT",
        "ALTER TABLE altered MODIFY e ENUM('b','c','a'), MODIFY t MEDIUMTEXT COMPRESSED",
        "ALTER TABLE altered MODIFY t MEDIUMTEXT, MODIFY id BIGINT UNSIGNED FIRST",
        "UPDATE altered SET id = id + 1000",
    )


def test_a_time_of_mariadb_5_3_has_its_digits(mariadb: Mysql) -> None:
    """Its rows in the binlog are refused: they lack the number of digits."""
    name = (DATABASE, "old_times")
    run(mariadb, "SET GLOBAL mysql56_temporal_format = OFF")
    try:
        run(
            mariadb,
            "CREATE TABLE old_times (id INT PRIMARY KEY, t TIME(3), d DATETIME(6), s TIMESTAMP(2) NULL)",
            "INSERT INTO old_times VALUES"
            " (1, '-01:02:03.456', '2026-01-02 03:04:05.678901', '2026-01-02 03:04:05.67')",
            database=DATABASE,
        )
    finally:
        run(mariadb, "SET GLOBAL mysql56_temporal_format = ON")
    (row,) = selected(mariadb, name)
    assert row.image == (
        1,
        "-01:02:03.456",
        "2026-01-02T03:04:05.678901",
        "2026-01-02T03:04:05.67Z",
    )


def test_a_year_of_two_digits_is_refused_by_name(mariadb: Mysql) -> None:
    run(mariadb, "CREATE TABLE years (id INT PRIMARY KEY, y YEAR(2))", database=DATABASE)
    with pytest.raises(
        SnapshotUnsupported, match=r"column 'y' has the type year\(2\).*\[table=snapshot\.years\]"
    ):
        selected_table(mariadb, (DATABASE, "years"))


def test_addresses_are_selected_by_a_definition_that_is_known_from_rows(mariadb: Mysql) -> None:
    name = (DATABASE, "addresses_by_rows")
    steps = written(
        mariadb,
        f"CREATE TABLE {DATABASE}.addresses_by_rows (id INT PRIMARY KEY, a INET6, u UUID, b BINARY(16))",
        f"INSERT INTO {DATABASE}.addresses_by_rows VALUES"
        " (1, '::1', '123e4567-e89b-12d3-a456-426655440000', 'x')",
    )
    known = definition_of(mariadb, name, known_facts(mariadb))
    columns = tuple(
        replace(
            one,
            type="int" if one.name == "id" else "binary(16)",
            by_rows=True,
            charset=None,
            collation=None,
        )
        for one in known.columns
    )
    found = selected(mariadb, name, table=replace(known, columns=columns))
    assert_same(found, logged(mariadb, steps, name))


@pytest.mark.parametrize(
    ("key", "sort_length"), [("varchar(760)", "DEFAULT"), ("varchar(99)", "64")]
)
def test_long_keys_that_begin_alike_are_in_order_where_the_server_sorts_them(
    mariadb: Mysql, key: str, sort_length: str
) -> None:
    begin = "é" * (int(key[8:-1]) - 5)
    rows = ", ".join(f"('{begin}{n * 7919 % 3001:05}', {n % 300})" for n in range(3_000))
    run(
        mariadb,
        f"SET GLOBAL max_sort_length = {sort_length}",
        f"CREATE OR REPLACE TABLE {DATABASE}.sorted (k {key} PRIMARY KEY, v int, KEY (v))",
        f"INSERT INTO {DATABASE}.sorted VALUES {rows}",
    )
    facts, name = known_facts(mariadb), (DATABASE, "sorted")
    known = definition_of(mariadb, name, facts)
    reader = ChunkReader(
        address_of(mariadb),
        name,
        charsets=facts.charsets,
        server=server_of(facts),
        definition=lambda: known,
        where="v IN (1, 2, 3, 5, 8)",
        keeps_keys=True,
    )
    keys, after, end = list[tuple[str, ...]](), None, end_of(mariadb)
    while True:
        reader._limit = 7
        chunk = reader.read(after, end)
        assert chunk is not None
        keys += chunk.keys
        after = chunk.last
        if chunk.is_last:
            break
    reader.close()
    run(mariadb, "SET GLOBAL max_sort_length = DEFAULT")
    assert len(set(keys)) == len(keys) == 50
