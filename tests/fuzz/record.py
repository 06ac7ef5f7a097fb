"""Records the corpus from real servers: ``python -m tests.fuzz.record``.

Invariant: every event of the corpus was written by a server. MySQL writes a table of each family of types,
changes of all kinds with full and partial images, partial updates of documents, compressed and tagged
transactions; MariaDB its own events, compressed ones too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import zstandard

from devstack import mariadb as mariadb_software
from devstack import mysql_software
from devstack.mysql import Mysql
from devstack.processes import Children
from tests.fuzz.corpus_of import FOLDER, Collations, collations_of, stored
from tests.harness.sql import connected
from tests.integration.mariadb import families as mariadb
from tests.integration.worker import families as mysql
from tests.integration.worker.source import facts_of

_DATABASE = "fuzz"
_WIDEST = 40
"""Columns of a family that are recorded: its kinds come again and again, and the corpus is to stay small."""
_DOCUMENT = (
    '\'{"name": "Ann", "n": 7, "list": [1, 2, {"x": []}], "a.b c": 1.5, "big": 12345678901, '
    '"no": null, "yes": true, "o": {"p": {"q": -1}}}\''
)
_DEEP = f"'{'[' * 90}{']' * 90}'"


def _families(families: object) -> Iterator[str]:
    assert isinstance(families, dict)
    for name, columns in families.items():
        few = list(columns())[:_WIDEST]
        table = f"{_DATABASE}.{name}"
        for statement in mysql.statements_for(table, few):
            # Long values are all of a kind.
            yield statement.replace("10000)", "300)").replace("5000)", "300)")
        yield f"UPDATE {table} SET id = id + 100 WHERE id < 3"
        yield f"DELETE FROM {table} WHERE id = 3"


def _shapes() -> Iterator[str]:
    yield "CREATE TABLE a (id int PRIMARY KEY, name varchar(20), n int) "
    yield "CREATE TABLE b (k1 int, k2 varchar(9), v bigint unsigned, PRIMARY KEY (k2, k1))"
    yield "CREATE TABLE c (x int, y text)"
    yield "INSERT INTO a VALUES (1, 'x', 1), (2, NULL, 2), (3, 'zzz', NULL)"
    yield "INSERT INTO b VALUES (1, 'x', 1), (2, 'y', NULL), (3, 'zzz', 18446744073709551615)"
    yield "UPDATE a JOIN b ON a.id = b.k1 SET a.n = 9, b.v = 8"
    yield "INSERT INTO c SELECT id, REPEAT(name, 40) FROM a"
    yield "BEGIN"
    yield "INSERT INTO a VALUES (7, 'ü', 7)"
    yield "SAVEPOINT s"
    yield "UPDATE b SET k1 = k1 + 10"
    yield "DELETE a, b FROM a, b WHERE a.id = 2 AND b.k2 = 'y'"
    yield "COMMIT"
    for image in ("MINIMAL", "NOBLOB"):
        yield f"SET SESSION binlog_row_image = {image}"
        yield f"INSERT INTO a (id, n) VALUES ({len(image)}0, 7)"
        yield "UPDATE a SET n = n + 1"
        yield "DELETE FROM a WHERE id > 60"
    yield "SET SESSION binlog_row_image = FULL"
    yield "ALTER TABLE a ADD COLUMN w double, ALGORITHM = COPY"
    yield "INSERT INTO a (id, w) VALUES (8, 1.25)"
    yield "TRUNCATE TABLE c"
    yield "DROP TABLE c"


def _documents() -> Iterator[str]:
    yield "CREATE TABLE d (id int PRIMARY KEY, j json, k json, t int)"
    yield (
        f"INSERT INTO d VALUES (1, {_DOCUMENT}, {_DOCUMENT}, 0), (2, {_DEEP}, '\"s\"', 0), (3, NULL, '[]', 0)"
    )
    yield (
        "INSERT INTO d VALUES (4, JSON_OBJECT('d', CAST(1.50 AS DECIMAL(9,3)), 't', CAST('01:02:03.4' AS"
        " TIME(2)), 'w', CAST('2026-01-02 03:04:05.6' AS DATETIME(6)), 'b', x'00ff'), '1e300', 0)"
    )
    yield "SET SESSION binlog_row_value_options = PARTIAL_JSON"
    yield "UPDATE d SET j = JSON_SET(j, '$.name', 'Zoë', '$.list[9]', 4) WHERE id = 1"
    yield "UPDATE d SET k = JSON_REMOVE(k, '$.list[0]', '$.\"a.b c\"'), t = 2 WHERE id = 1"
    yield "UPDATE d SET j = JSON_REPLACE(j, '$.o.p.q', JSON_ARRAY(1, -2, 1e100)) WHERE id = 1"
    yield "SET SESSION binlog_row_value_options = ''"


def _mysql() -> Iterator[str]:
    yield from _families(mysql.FAMILIES)
    yield from _shapes()
    yield from _documents()
    yield "SET SESSION binlog_transaction_compression = ON"
    yield f"INSERT INTO d VALUES (10, {_DOCUMENT}, NULL, 1), (11, '{{}}', '{{}}', 1)"
    yield "UPDATE d SET t = t + 1"
    yield "SET SESSION binlog_transaction_compression = OFF, SESSION binlog_rows_query_log_events = ON"
    yield "SET SESSION gtid_next = 'AUTOMATIC:some_tag'"
    yield "UPDATE d SET t = t + 1"
    yield "DELETE FROM d WHERE id = 10"


def _mariadb() -> Iterator[str]:
    families = {"compressed": mariadb.compressed, "times": mysql.times}
    yield from _families(families)
    yield from _shapes()
    yield "CREATE SEQUENCE q"
    yield "SELECT NEXTVAL(q)"


def _recorded(server: Mysql, statements: Iterator[str]) -> tuple[list[bytes], Collations]:
    server.start()
    with connected(server) as cursor:
        cursor.execute(f"CREATE DATABASE {_DATABASE}")
        cursor.execute(f"USE {_DATABASE}")
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("SHOW BINARY LOGS")
        files = [str(row[0]) for row in cursor.fetchall()][:-1]
    collations = collations_of(facts_of(server).charsets)
    found = [(server.data / file).read_bytes() for file in files]
    server.stop()
    return found, collations


def main() -> None:
    """Write both files."""
    FOLDER.mkdir(exist_ok=True)
    owner = Children()
    try:
        with tempfile.TemporaryDirectory() as folder:
            software = mysql_software.find_or_fetch(owner)
            own = Mysql(Path(folder) / "mysql", software, owner=owner)
            kept("mysql", *_recorded(own, _mysql()))
            other = mariadb_software.find_or_fetch("11.8", owner)
            options: dict[str, str | int] = {
                "log_bin_compress": "ON",
                "log_bin_compress_min_len": 10,
            }
            server = Mysql(
                Path(folder) / "mariadb",
                other,
                owner=owner,
                flavour=mariadb_software.MARIADB,
                options=options,
            )
            kept("mariadb", *_recorded(server, _mariadb()))
    finally:
        owner.close()


def kept(name: str, files: list[bytes], collations: Collations) -> None:
    """Store the binlog of one server."""
    (FOLDER / f"{name}.zst").write_bytes(
        zstandard.ZstdCompressor(level=19).compress(stored(files, collations))
    )


if __name__ == "__main__":
    main()
