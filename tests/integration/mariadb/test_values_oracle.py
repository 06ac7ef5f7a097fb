"""Every MariaDB type at its limits: the decoded value equals that of SELECT."""

from collections.abc import Sequence
from typing import Any

import pytest

from connectors.errors import UnsupportedEvent
from connectors.mysql.rows.decoder import UPDATES, WRITES
from connectors.mysql.types.registry import column_charset, column_type
from devstack.mysql import Mysql
from tests.harness.sql import connected, run
from tests.integration.mariadb.families import FAMILIES
from tests.integration.mariadb.source import written
from tests.integration.worker.families import statements_for
from tests.integration.worker.oracle import rows_of, same
from tests.integration.worker.source import decoded, facts_of
from tests.steps import Rows, Step

pytestmark = pytest.mark.stack

DATABASE = "oracle"
# The binlog has these as BINARY, and a vector as VARBINARY.
_AS_BYTES = {"inet6": "binary(16)", "inet4": "binary(4)", "uuid": "binary(16)"}


@pytest.fixture(scope="module", autouse=True)
def database(mariadb: Mysql) -> None:
    run(mariadb, f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")


def assert_selected(
    mariadb: Mysql, steps: Sequence[Step], table: str, database: str = DATABASE
) -> None:
    """The last image of each row is the server's row."""
    ours = {
        row.after()["id"]: row.after() for row in decoded(mariadb, list(steps)) if row.change.after
    }
    with connected(mariadb) as cursor:
        theirs = rows_of(cursor, database, table)
        kinds = types_of(cursor, database, table)
    assert [row["id"] for row in theirs] == sorted(ours)
    assert [
        (expected["id"], name, kinds[name], ours[expected["id"]][name], expected[name])
        for expected in theirs
        for name in expected
        if not same(ours[expected["id"]][name], expected[name], kinds[name])
    ] == []


def types_of(cursor: Any, database: str, table: str) -> dict[str, str]:
    cursor.execute(
        "SELECT column_name, LOWER(data_type) FROM information_schema.columns"
        f" WHERE table_schema = '{database}' AND table_name = '{table}'"
    )
    return dict(cursor.fetchall())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_decoded_row_is_what_the_server_selects(mariadb: Mysql, family: str) -> None:
    table = f"{family}_selected"
    # One of the two series compresses: in this all do alike.
    compress = "OFF" if facts_of(mariadb).variables["version"].startswith("10.") else "ON"
    run(
        mariadb,
        f"SET GLOBAL log_bin_compress = {compress}",
        "SET GLOBAL log_bin_compress_min_len = 10",
    )
    try:
        steps = written(
            mariadb,
            *statements_for(f"{DATABASE}.{table}", FAMILIES[family]()),
            f"UPDATE {DATABASE}.{table} SET id = id + 1 ORDER BY id DESC",
        )
    finally:
        run(mariadb, "SET GLOBAL log_bin_compress = OFF")
    inserted = [step for step in steps if isinstance(step, Rows) and step.event_type in WRITES]
    updated = [step for step in steps if isinstance(step, Rows) and step.event_type in UPDATES]
    assert_selected(mariadb, updated, table)
    run(mariadb, f"UPDATE {DATABASE}.{table} SET id = id - 1 ORDER BY id")
    assert_selected(mariadb, inserted, table)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_definition_from_the_binlog_is_that_of_information_schema(
    mariadb: Mysql, family: str
) -> None:
    table = f"described_{family}"
    steps = written(mariadb, *statements_for(f"{DATABASE}.{table}", FAMILIES[family]()))
    charsets = facts_of(mariadb).charsets
    step = next(step for step in steps if isinstance(step, Rows))
    ours = [
        (c.name, column_type(c, charsets), c.nullable, _charset(column_charset(c, charsets)))
        for c in step.table_map.columns
    ]
    with connected(mariadb) as cursor:
        cursor.execute(
            "SELECT column_name, column_type, is_nullable = 'YES', character_set_name"
            " FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
            " ORDER BY ordinal_position",
            (DATABASE, table),
        )
        theirs = [
            (name, _plain(kind), bool(null), _charset(charset))
            for name, kind, null, charset in cursor.fetchall()
        ]
    assert ours == theirs
    assert step.table_map.primary_key == (0,)


def _charset(name: str | None) -> str | None:
    return "utf8mb3" if name == "utf8" else name


def _plain(kind: str) -> str:
    """A type without what the binlog lacks: compression, display widths, and MariaDB's own kinds of BINARY."""
    kind = kind.removesuffix(" /*M!100301 COMPRESSED*/").replace(
        "geometrycollection", "geomcollection"
    )
    name, _, rest = kind.partition("(")
    if name in ("tinyint", "smallint", "mediumint", "int", "bigint", "year"):
        return name + rest.partition(")")[2]
    return _AS_BYTES.get(kind, kind)


def test_a_year_of_two_digits_is_whole(mariadb: Mysql) -> None:
    steps = written(
        mariadb,
        f"CREATE TABLE {DATABASE}.years (id int primary key, y year(2))",
        f"INSERT INTO {DATABASE}.years VALUES (1, 70), (2, 69), (3, 0)",
    )
    assert [row.after()["y"] for row in decoded(mariadb, steps)] == [1970, 2069, 2000]


def test_a_clock_of_mariadb_5_3_is_refused_by_name(mariadb: Mysql) -> None:
    run(mariadb, "SET GLOBAL mysql56_temporal_format = OFF")
    try:
        steps = written(
            mariadb,
            f"CREATE TABLE {DATABASE}.old (id int primary key, t time(3), d datetime(6))",
            f"INSERT INTO {DATABASE}.old VALUES (1, '01:02:03.456', '2026-01-02 03:04:05.678901')",
        )
    finally:
        run(mariadb, "SET GLOBAL mysql56_temporal_format = ON")
    with pytest.raises(
        UnsupportedEvent, match=r"column 't' is a TIME in the format of MariaDB 5\.3"
    ):
        decoded(mariadb, steps)
    again = written(
        mariadb,
        f"ALTER TABLE {DATABASE}.old FORCE",
        f"UPDATE {DATABASE}.old SET id = 2",
    )
    (row,) = decoded(mariadb, again)
    assert row.after() == {"id": 2, "t": "01:02:03.456", "d": "2026-01-02T03:04:05.678901"}
