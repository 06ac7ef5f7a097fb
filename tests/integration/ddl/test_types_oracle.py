"""Every type, with every argument and character set, on every server: the resulting column is as predicted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pymysql
import pytest

from connectors.mysql.ddl.collations import chosen, server_default
from connectors.mysql.ddl.column_types import resolved
from connectors.mysql.ddl.definition import Database, Server, Session
from connectors.mysql.types.type_spec import Refused, TypeSpec
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import connected
from tests.integration.ddl import type_cases
from tests.integration.ddl.type_cases import written

MYSQL = ("5.5", "5.6", "5.7", "8.0", "9.7")
MARIADB = ("mariadb-10.11", "mariadb-11.8")
SERIES = MYSQL + MARIADB
STRICT = "STRICT_TRANS_TABLES"
DATABASE = "type_oracle"
_ROW_TOO_LARGE = 1118
"""It depends on the other columns, and so it is no matter of a type."""

Answer = tuple[str, str | None, str | None] | None
"""Type, character set and collation; None for a refusal."""


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize(
    ("family", "mode"),
    [
        ("names", ""), ("names", "ANSI"), ("numbers", ""), ("others", ""),
        ("texts", ""), ("texts", STRICT), ("labels", ""), ("labels", STRICT),
    ],
)  # fmt: skip
def test_a_type_is_what_the_server_makes_of_it(
    servers: Servers, series: str, family: str, mode: str
) -> None:
    cases = list(getattr(type_cases, family)())
    assert differences(servers(series), cases, mode=mode) == []


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize(
    "options",
    ["CHARACTER SET latin2 COLLATE latin2_bin", "CHARACTER SET utf8", "CHARACTER SET binary"],
)
def test_text_takes_what_it_lacks_from_its_table(
    servers: Servers, series: str, options: str
) -> None:
    cases = [*type_cases.names(), *type_cases.texts(), *type_cases.labels()]
    assert differences(servers(series), cases, options=options) == []


@pytest.mark.parametrize("series", MARIADB)
def test_what_mariadb_alone_takes_is_what_it_makes_of_it(servers: Servers, series: str) -> None:
    mariadb = servers(series)
    assert differences(mariadb, type_cases.of_mariadb()) == []
    assert differences(mariadb, type_cases.of_mariadb(), mode=STRICT) == []
    assert differences(mariadb, type_cases.of_mariadb(), options="CHARACTER SET latin1") == []
    assert differences(mariadb, type_cases.of_oracle(), mode="ORACLE") == []


@pytest.mark.parametrize("series", ["8.0", "9.7"])
def test_what_mysql_alone_takes_is_what_it_makes_of_it(servers: Servers, series: str) -> None:
    assert differences(servers(series), type_cases.of_mysql()) == []


@pytest.mark.parametrize("series", ["5.5", "5.6", "5.7", *MARIADB])
def test_a_timestamp_is_a_datetime_where_the_mode_is_that_of_maxdb(
    servers: Servers, series: str
) -> None:
    cases = [TypeSpec(name="timestamp"), TypeSpec(name="date")]
    assert differences(servers(series), cases, mode="MAXDB") == []


def differences(
    mysql: Mysql,
    cases: Iterable[TypeSpec],
    *,
    mode: str = "",
    options: str = "CHARACTER SET utf8mb4",
) -> list[tuple[str, Answer, Answer]]:
    """The differences between the server's answer and ours."""
    with connected(mysql) as cursor:
        server = server_of(cursor)
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {DATABASE}")
        cursor.execute("SET sql_mode = %s", (mode,))
        session = Session(sql_mode=frozenset(filter(None, mode.split(","))))
        table = table_default(options, server, session)
        ours = {
            written(spec): answered(spec, table, server=server, session=session) for spec in cases
        }
        theirs = dict(_asked(cursor, ours, options))
    # Else we may agree only about what is no SQL.
    assert any(theirs.values())
    return [(sql, result, ours[sql]) for sql, result in theirs.items() if result != ours[sql]]


_AT_ONCE = 20


def _asked(cursor: Any, ours: dict[str, Answer], options: str) -> Iterator[tuple[str, Answer]]:
    """The server's answers: of many types at once where they fit into one table, else one by one."""
    together = [sql for sql, answer in ours.items() if answer]
    alone = [sql for sql, answer in ours.items() if not answer]
    for begin in range(0, len(together), _AT_ONCE):
        batch = together[begin : begin + _AT_ONCE]
        with contextlib.suppress(pymysql.MySQLError):
            yield from zip(batch, table_of(cursor, batch, options), strict=True)
            continue
        alone += batch
    for sql in alone:
        try:
            yield sql, table_of(cursor, [sql], options)[0]
        except pymysql.MySQLError as error:
            if error.args[0] != _ROW_TOO_LARGE:
                yield sql, None


def table_of(cursor: Any, types: Sequence[str], options: str) -> list[Answer]:
    """A table's columns of these types."""
    cursor.execute(f"DROP TABLE IF EXISTS {DATABASE}.t")
    columns = ",".join(f"c{n} {sql}" for n, sql in enumerate(types))
    cursor.execute(f"CREATE TABLE {DATABASE}.t ({columns}) {options}")
    cursor.execute(
        "SELECT column_type, character_set_name, collation_name FROM information_schema.columns"
        f" WHERE table_schema = '{DATABASE}' AND table_name = 't' ORDER BY ordinal_position"
    )
    return [described(*row) for row in cursor.fetchall()]


def described(kind: str | bytes, charset: str | None, collation: str | None) -> Answer:
    """A row of the server's answer; of ENUM and SET of bytes some versions say so, and others nothing."""
    charset, collation = (None, None) if charset == "binary" else (charset, collation)
    return kind.decode() if isinstance(kind, bytes) else kind, charset, collation


def answered(spec: TypeSpec, table: Database, *, server: Server, session: Session) -> Answer:
    try:
        found = resolved(spec, table, server=server, session=session)
    except Refused:
        return None
    return found.type, found.charset, found.collation


def table_default(options: str, server: Server, session: Session) -> Database:
    words = options.split()
    collation = words[words.index("COLLATE") + 1] if "COLLATE" in words else None
    database = server_default(server, session)
    return chosen(words[2], collation, database, server=server, session=session)


def server_of(cursor: Any) -> Server:
    cursor.execute("SELECT VERSION()")
    text = str(cursor.fetchone()[0])
    major, minor, patch = text.partition("-")[0].split(".")
    return Server(version=(int(major), int(minor), int(patch)), mariadb="MariaDB" in text)
