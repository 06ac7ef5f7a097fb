"""Statements that bring every type, image, character set and kind of transaction into a binlog.

Invariant: all of it is published rightly, so an audit that finds a fault in it is wrong, or the worker is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.integration.old_mysql.families import known
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.test_charsets_oracle import UNICODE, sequences
from tests.integration.worker.test_json_oracle import DOCUMENTS

IMAGES = ("FULL", "NOBLOB", "MINIMAL")
NEWEST = "9.7"
_ROWS_AT_ONCE = 2_000
_CODECS = {
    "utf8mb3": "utf-8", "utf8mb4": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be",
    "utf16le": "utf-16-le", "utf32": "utf-32-be",
}  # fmt: skip
_ASTRAL = {"utf8mb4", "utf16", "utf16le", "utf32"}
_NO_DAY = "'2023-02-31')"
LAX = "SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION,ALLOW_INVALID_DATES', time_zone = '+00:00'"


def corpus(series: str, charsets: Iterable[str], *, every: int, plain: bool) -> Iterator[str]:
    """All of it, for one session with utf8mb4.

    ``every``: one of so many byte sequences and code points. ``plain``: VECTOR and a DATE that is no day, which
    mysql-replication does not read, are in tables of their own.
    """
    yield "CREATE DATABASE shop"
    for image in IMAGES:
        yield from types(series, image, plain=plain)
        yield from keys(image)
        if series not in ("5.5", "5.6"):
            yield from documents(series, image)
    yield "SET SESSION binlog_row_image = FULL"
    for charset in sorted(charsets):
        yield from characters(charset, every=every)
    yield from transactions()
    yield from tables_that_come_and_go()
    if plain:
        yield from unread(series)


def unread(series: str) -> Iterator[str]:
    """Tables that mysql-replication cannot read, alone in their transactions and among others."""
    kind, value = ("VECTOR(3)", "STRING_TO_VECTOR('[1,2,3]')") if series == NEWEST else ("INT", "1")
    yield LAX
    yield f"CREATE TABLE shop.vectors (v {kind}, id INT PRIMARY KEY, t DATETIME(3))"
    yield "CREATE TABLE shop.days (id INT PRIMARY KEY, d DATE)"
    yield f"INSERT INTO shop.vectors VALUES ({value}, 1, NOW(3)), (NULL, 2, NULL)"
    yield "INSERT INTO shop.days VALUES (1, '2024-02-29')"
    yield "INSERT INTO shop.days VALUES (2, '2023-02-31'), (3, '2024-02-29')"
    for name in ("vectors", "days"):
        yield "BEGIN"
        yield "INSERT INTO shop.log VALUES (60, 'before')"
        yield f"UPDATE shop.{name} SET id = id + 10"
        yield "INSERT INTO shop.log VALUES (61, 'after')"
        yield "COMMIT"
    yield "XA START 'unread'"
    yield "DELETE FROM shop.days"
    yield "INSERT INTO shop.log VALUES (62, 'after')"
    yield "XA END 'unread'"
    yield "XA PREPARE 'unread'"
    yield "XA COMMIT 'unread'"


def types(series: str, image: str, *, plain: bool) -> Iterator[str]:
    """Every type at its limits, written with one image: each column set alone, and whole rows deleted."""
    for family in FAMILIES:
        table = f"shop.{family}_{image.lower()}"
        columns = list(FAMILIES[family]()) if series == NEWEST else known(series, family)
        if plain:
            columns = [one for one in columns if not one[0].startswith("vector")]
        rows = max(len(values) for _, values in columns)
        columns = [(kind, [*values, *["NULL"] * (rows - len(values))]) for kind, values in columns]
        made = [LAX, *statements_for(table, columns)[1:]]
        yield from (
            (sql.replace(_NO_DAY, "NULL)") for sql in made) if plain and family == "times" else made
        )
        yield f"SET SESSION binlog_row_image = {image}"
        for n in range(len(columns)):
            yield f"UPDATE {table} AS a, {table} AS b SET a.c{n} = b.c{n} WHERE a.id = 1 AND b.id = 2"
        yield f"UPDATE {table} SET id = id + 100 WHERE id > 2"
        yield f"DELETE FROM {table} WHERE id % 2 = 0"
        yield "SET SESSION binlog_row_image = FULL"


def keys(image: str) -> Iterator[str]:
    """Moved keys, tables with none, control characters, and texts that look like what a witness prints."""
    text = "".join(f"{n:02x}" for n in range(128))
    keyed, keyless, promoted = (
        f"shop.{name}_{image.lower()}" for name in ("keyed", "keyless", "promoted")
    )
    yield (
        f"CREATE TABLE {keyed} (`a, b` INT, `c``d` VARCHAR(20), b BLOB, t TEXT, u VARCHAR(200),"
        " PRIMARY KEY (`c``d`, `a, b`))"
    )
    yield f"CREATE TABLE {keyless} (a INT, t TEXT)"
    yield f"CREATE TABLE {promoted} (a INT NOT NULL, t TEXT, UNIQUE (a))"
    yield f"SET SESSION binlog_row_image = {image}"
    yield (
        f"INSERT INTO {keyed} VALUES (1, 'x', x'00ff0c', x'{text}', x'{text}'),"
        " (2, 'NULL', NULL, '!! ', '### @1=2')"
    )
    yield f"UPDATE {keyed} SET u = 'NULL', t = CONCAT(t, '\\n# at 4\\n') WHERE `a, b` = 1"
    yield f"UPDATE {keyed} SET `a, b` = 3 WHERE `a, b` = 1"
    yield f"UPDATE {keyed} SET `c``d` = 'X' WHERE `a, b` = 3"
    for table in (keyless, promoted):
        yield f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, NULL)"
        yield f"UPDATE {table} SET t = 'c' WHERE a = 1"
        yield f"UPDATE {table} SET a = a + 10 WHERE a > 1"
        yield f"DELETE FROM {table} WHERE a = 12"
    yield f"INSERT INTO {keyless} VALUES (1, 'c'), (1, 'c')"
    yield f"DELETE FROM {keyless} LIMIT 2"
    yield "SET SESSION binlog_row_image = FULL"


def documents(series: str, image: str) -> Iterator[str]:
    """Documents of every kind, whole and changed in part."""
    table = f"shop.documents_{image.lower()}"
    if image == IMAGES[0]:
        yield "CREATE TABLE shop.numbers (n INT PRIMARY KEY)"
        yield "INSERT INTO shop.numbers VALUES (1), (2), (3)"
    old = series.startswith("5.")
    yield f"CREATE TABLE {table} (id INT PRIMARY KEY, j JSON, t VARCHAR(9))"
    for n, one in enumerate(DOCUMENTS):
        if series == NEWEST or "AS YEAR" not in one:
            yield f"INSERT INTO {table} VALUES ({n}, {one.replace('numbers', 'shop.numbers')}, 't')"
    big = "JSON_OBJECT('big', REPEAT('x', 300), 'n', 1, 'l', JSON_ARRAY(1, 'two', NULL))"
    yield f"INSERT INTO {table} VALUES (1000, {big}, 't'), (1001, '\"\\\\f\\\\u000c\"', '\\f\x0b\x0c')"
    yield f"SET SESSION binlog_row_image = {image}"
    yield f"UPDATE {table} SET t = 'u' WHERE id < 5"
    yield f"UPDATE {table} SET j = '[1]' WHERE id = 7"
    yield "SET SESSION binlog_row_image = FULL"
    if not old:
        yield "SET SESSION binlog_row_value_options = PARTIAL_JSON"
    yield (
        f"UPDATE {table} SET j = JSON_SET(j, '$.n', 'null', '$.l[1]', CAST('null' AS JSON), '$.new', 2.5)"
        " WHERE id = 1000"
    )
    yield f"UPDATE {table} SET j = JSON_REMOVE(j, '$.l[0]'), t = 'v' WHERE id = 1000"
    yield f"UPDATE {table} SET id = 2000, j = JSON_SET(j, '$.n', 7) WHERE id = 1000"
    if not old:
        # Nobody can say what such documents are: dead letters.
        yield "SET SESSION binlog_row_image = MINIMAL"
        yield f"UPDATE {table} SET j = JSON_SET(j, '$.n', 8) WHERE id = 2000"
        yield "SET SESSION binlog_row_value_options = DEFAULT, binlog_row_image = FULL"
    yield f"DELETE FROM {table} WHERE id > 3"


def characters(charset: str, *, every: int) -> Iterator[str]:
    """Every character of a set in text, some of them in labels and keys."""
    table, keyed = f"shop.`{charset}`", f"shop.`{charset}_keyed`"
    found = code_points(charset, every=every) if charset in UNICODE else sequences(charset)[::every]
    yield LAX
    yield (
        f"CREATE TABLE {table} (n INT PRIMARY KEY, t VARCHAR(40), e ENUM('a', '[é]', 'Ä\\\\'),"
        f" s SET('x', '{{Ö}}'), k VARCHAR(9)) CHARACTER SET {charset}"
    )
    for begin in range(0, len(found), _ROWS_AT_ONCE):
        part = enumerate(found[begin : begin + _ROWS_AT_ONCE], start=begin)
        values = ", ".join(f"({n}, x'{raw.hex()}')" for n, raw in part)
        yield f"INSERT IGNORE INTO {table} (n, t) VALUES {values}"
    yield (
        f"INSERT IGNORE INTO {table} VALUES (900001, 'é', 1, 1, 'k'), (900002, 'b', 2, 2, 'k'),"
        " (900003, 'c', 3, 3, 'k')"
    )
    yield f"UPDATE {table} SET k = t WHERE n % 11 = 0"
    yield f"DELETE FROM {table} WHERE n % 7 = 0"
    yield f"CREATE TABLE {keyed} (k VARCHAR(40) PRIMARY KEY, x INT) CHARACTER SET {charset}"
    for raw in found[:: max(1, len(found) // 300)]:
        yield f"INSERT IGNORE INTO {keyed} VALUES (x'{raw.hex()}', 1)"
    yield f"UPDATE {keyed} SET x = 2"


def code_points(charset: str, *, every: int) -> list[bytes]:
    """Code points of a form of Unicode, sixteen to a text."""
    codec, last = _CODECS[charset], 0x110000 if charset in _ASTRAL else 0x10000
    points = [n for n in range(0, 0x10000, every) if not 0xD800 <= n < 0xE000]
    points += range(0x10000, last, 61 * every)
    texts = ("".join(map(chr, points[at : at + 16])) for at in range(0, len(points), 16))
    return [text.encode(codec) for text in texts]


def transactions() -> Iterator[str]:
    """XA in every form, the same names again and again, rolled back ones, and large rows."""
    yield "CREATE TABLE shop.log (a INT, note VARCHAR(200))"
    for n in range(6):
        for name, end in (
            ("'kept'", ("XA PREPARE {0}", "XA COMMIT {0}")), ("'kept'", ("XA COMMIT {0} ONE PHASE",)),
            ("'dropped'", ("XA PREPARE {0}", "XA ROLLBACK {0}")), ("'dropped'", ("XA ROLLBACK {0}",)),
            ("'g', 'b', 7", ("XA PREPARE {0}", "XA COMMIT {0}")),
            ("x'00ff', x'27', 1", ("XA COMMIT {0} ONE PHASE",)),
        ):  # fmt: skip
            yield f"XA START {name}"
            yield f"INSERT INTO shop.log VALUES ({n}, 'in an XA transaction')"
            yield f"UPDATE shop.log SET note = 'changed' WHERE a = {n - 1}"
            yield f"XA END {name}"
            yield from (one.format(name) for one in end)
    for n in range(3):
        yield "BEGIN"
        yield f"INSERT INTO shop.log VALUES ({n}, 'before a savepoint')"
        yield "SAVEPOINT s"
        yield f"INSERT INTO shop.log VALUES ({n}, 'after it')"
        yield "ROLLBACK TO s"
        yield ("COMMIT", "ROLLBACK")[n % 2]
    yield "CREATE TABLE shop.large (id INT PRIMARY KEY, note LONGTEXT)"
    yield "INSERT INTO shop.large VALUES (1, 'small'), (2, REPEAT('é', 1500000)), (3, 'small')"
    yield "UPDATE shop.large SET note = CONCAT(note, 'x') WHERE id = 2"
    yield "UPDATE shop.large SET id = 4 WHERE id = 2"


def tables_that_come_and_go() -> Iterator[str]:
    """Tables emptied, dropped, renamed and made again, under statements that change their columns and keys."""
    yield "CREATE TABLE shop.gone (id INT PRIMARY KEY)"
    yield "INSERT INTO shop.gone VALUES (1), (2)"
    yield "TRUNCATE shop.gone"
    yield "INSERT INTO shop.gone VALUES (1)"
    yield "DROP TABLE shop.gone"
    yield "CREATE TABLE shop.gone (a VARCHAR(9), id INT, PRIMARY KEY (id, a))"
    yield "INSERT INTO shop.gone VALUES ('a', 1)"
    yield "ALTER TABLE shop.gone DROP PRIMARY KEY, ADD PRIMARY KEY (a), ADD COLUMN d DATE FIRST"
    yield "UPDATE shop.gone SET d = '2026-11-22', id = 2"
    yield "RENAME TABLE shop.gone TO shop.here"
    yield "INSERT INTO shop.here VALUES (NULL, 'b', 3)"
    yield "CREATE TABLE shop.torn (id INT PRIMARY KEY, a INT, b INT)"
    yield "INSERT INTO shop.torn VALUES (1, 10, 100)"
    # What no binlog has: its rows wait in quarantine from here on.
    yield "SET sql_log_bin = 0"
    yield "ALTER TABLE shop.torn MODIFY b BIGINT FIRST"
    yield "SET sql_log_bin = 1"
    yield "BEGIN"
    yield "INSERT INTO shop.log VALUES (50, 'beside it')"
    yield "INSERT INTO shop.torn (id, a, b) VALUES (2, 20, 200), (3, 30, 300)"
    yield "INSERT INTO shop.log VALUES (51, 'beside it')"
    yield "COMMIT"
    yield "UPDATE shop.torn SET a = 21 WHERE id = 2"
