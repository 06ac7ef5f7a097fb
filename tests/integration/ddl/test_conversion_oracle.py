"""ALTER TABLE … CONVERT TO CHARACTER SET on every server: each column gets the predicted type."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from connectors.mysql.ddl.collations import chosen, server_default
from connectors.mysql.ddl.definition import Column, Server, Session
from connectors.mysql.ddl.resolve.charset import converted
from connectors.mysql.types.type_spec import Refused
from tests.harness.servers import Servers
from tests.harness.sql import connected
from tests.integration.ddl.test_types_oracle import MARIADB, SERIES, STRICT, server_of

DATABASE = "conversion_oracle"
CHARSETS = ("latin1", "utf8", "utf8mb4", "ucs2", "gbk", "binary")

TYPES = (
    "char(10)", "char(0)", "varchar(20)", "tinytext", "text", "mediumtext", "longtext", "text(300)",
    "varchar(9) CHARACTER SET ascii", "char(9) COLLATE latin1_german1_ci", "nchar(5)",
    "text CHARACTER SET utf8", "tinytext CHARACTER SET utf8mb4", "mediumtext CHARACTER SET latin1",
    "binary(3)", "varbinary(4)", "tinyblob", "blob", "int", "date", "char(3) BYTE",
)  # fmt: skip
LABELS = ("enum('a','b ')", "set('x','y z')", "enum('ä') CHARACTER SET utf8")
LONG = ("varchar(20000) CHARACTER SET latin1", "varchar(16383)")
OF_MARIADB = ("json", "varchar(20) COMPRESSED", "text COMPRESSED", "longtext COMPRESSED")


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("source", CHARSETS)
def test_text_is_converted_and_grows_as_the_server_says(
    servers: Servers, series: str, source: str
) -> None:
    types = (*TYPES, *OF_MARIADB) if series in MARIADB else TYPES
    for target in (*CHARSETS, "utf8mb4 COLLATE utf8mb4_unicode_ci"):
        assert differences(servers, series, types, source=source, target=target) == []


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("mode", ["", STRICT])
def test_text_that_is_too_long_then_is_another_type_or_refused(
    servers: Servers, series: str, mode: str
) -> None:
    for kind in LONG:
        for target in ("utf8", "utf8mb4"):
            found = differences(servers, series, (kind,), source="utf8", target=target, mode=mode)
            assert found == []


@pytest.mark.parametrize("series", SERIES)
def test_labels_are_kept_where_their_bytes_mean_the_same(servers: Servers, series: str) -> None:
    for source in ("latin1", "utf8"):
        for target in ("latin1", "utf8", "utf8mb4", "binary"):
            found = differences(servers, series, LABELS[:2], source=source, target=target)
            assert found == []
    for target in ("latin1", "utf8mb4"):
        # Those of another character set are taken for what their bytes are in the new one.
        assert differences(servers, series, LABELS[2:], source="utf8", target=target) == []


Answer = list[tuple[str, str | None, str | None]] | None
_COLUMNS = (
    "SELECT column_name, column_type, character_set_name, collation_name"
    f" FROM information_schema.columns WHERE table_schema = '{DATABASE}' ORDER BY ordinal_position"
)


def differences(
    servers: Servers,
    series: str,
    types: tuple[str, ...],
    *,
    source: str,
    target: str,
    mode: str = "",
) -> list[tuple[str, str, Any, Any]]:
    """The differences between the server's answer and ours."""
    with connected(servers(series)) as cursor:
        server = server_of(cursor)
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        columns = ",".join(f"c{n} {kind}" for n, kind in enumerate(types))
        cursor.execute(f"CREATE TABLE {DATABASE}.t ({columns}) CHARACTER SET {source}")
        before = seen(cursor)
        cursor.execute("SET sql_mode = %s", (mode,))
        theirs: Answer = None
        try:
            cursor.execute(f"ALTER TABLE {DATABASE}.t CONVERT TO CHARACTER SET {target}")
            theirs = described(seen(cursor))
        except pymysql.MySQLError:
            pass
    ours = answered(before, target, server, Session(sql_mode=frozenset({mode})))
    if theirs is None or ours is None:
        return [] if theirs is ours else [(source, target, theirs, ours)]
    pairs = zip(types, theirs, ours, strict=True)
    return [(kind, target, their, our) for kind, their, our in pairs if their != our]


def seen(cursor: Any) -> list[Column]:
    cursor.execute(_COLUMNS)
    found = []
    for name, kind, charset, collation in cursor.fetchall():
        text = kind.decode() if isinstance(kind, bytes) else kind
        binary = charset == "binary"
        found.append(
            Column(
                name=name,
                type=text,
                nullable=True,
                charset=None if binary else charset,
                collation=None if binary else collation,
            )
        )
    return found


def described(columns: list[Column]) -> Answer:
    return [(column.type, column.charset, column.collation) for column in columns]


def answered(columns: list[Column], target: str, server: Server, session: Session) -> Answer:
    charset, _, collation = target.partition(" COLLATE ")
    inherited = server_default(server, session)
    try:
        to = chosen(charset, collation or None, inherited, server=server, session=session)
        return described([converted(each, to, server=server, session=session) for each in columns])
    except Refused:
        return None
