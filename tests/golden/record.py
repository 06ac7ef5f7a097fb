"""Record a golden binlog of each series: ``python -m tests.golden.record [SERIES ...]``.

Starts a fresh server, runs the statements below on it, and keeps its binlog file and what it must give. Rows
are kept only if they add up to what the server itself selects in the end.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.schema.server_columns import read_definition
from devstack import mariadb, mysql_software
from devstack.mysql import Mysql
from devstack.old_mysql import SERIES, old_mysql
from devstack.processes import Children
from tests.golden.expected import Definition, definition, told
from tests.golden.load import SUFFIX, steps_of
from tests.harness.sql import connected
from tests.integration.worker.oracle import rows_of, same
from tests.integration.worker.source import facts_of

FOLDER = Path(__file__).parent
NEWEST = "9.7"
MARIADB = tuple(mariadb.RELEASES)
DATABASE = "golden"

_PEOPLE = """\
CREATE TABLE people (id int unsigned PRIMARY KEY, name varchar(40) CHARACTER SET latin1, born date,
 seen datetime, at timestamp NULL, span time, price decimal(12,2), flags set('a','ß','c') CHARACTER SET latin1,
 kind enum('x','it''s') NOT NULL, raw varbinary(8), code binary(4), doc text CHARACTER SET utf8, y year,
 b bit(9), big bigint unsigned, tiny tinyint, f float, d double)"""
_FULL = """\
(1,'Zoë','1970-01-01','2026-11-21 10:11:12','2026-11-21 10:11:12','-12:34:56',-1.05,'a,ß','x',x'00ff',
 x'0100','ä€',2026,b'101010101',18446744073709551615,-1,0.1,1e300)"""
_EMPTY = (
    "(2,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'it''s',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)"
)
_LIMITS = """\
(4294967295,'','0000-00-00','0000-00-00','0000-00-00','838:59:59',9999999999.99,'','x','','','',0,b'0',0,
 127,-3.4e38,-0.0e0)"""
_COMMON = (
    f"CREATE DATABASE {DATABASE}",
    f"USE {DATABASE}",
    _PEOPLE,
    f"INSERT INTO people VALUES {_FULL}",
    f"INSERT INTO people VALUES {_EMPTY}, {_LIMITS}",
    "UPDATE people SET price = 0.5, name = 'Œ' WHERE id = 1",
    "CREATE TABLE keyless (a int, b varchar(300)) ENGINE=MyISAM",
    "INSERT INTO keyless VALUES (1, 'one'), (1, 'one'), (-5, NULL)",
    "BEGIN",
    "INSERT INTO people (id, kind) VALUES (3, 'x')",
    "SAVEPOINT s",
    "DELETE FROM people",
    "ROLLBACK TO s",
    "UPDATE people SET id = 5 WHERE id = 3",
    "COMMIT",
    "ALTER TABLE people ADD COLUMN more mediumint unsigned AFTER name",
    "UPDATE people SET more = 16777215 WHERE id = 5",
    "DELETE FROM people WHERE id = 2",
    "CREATE TABLE gone (id int PRIMARY KEY)",
    "INSERT INTO gone VALUES (1)",
    "TRUNCATE TABLE gone",
    "DELETE FROM keyless WHERE a = 1 LIMIT 1",
)
_SINCE_5_6 = (
    "CREATE TABLE clocks (id int PRIMARY KEY, a time(3), b datetime(6), c timestamp(1) NULL, d time(6))",
    "INSERT INTO clocks VALUES (1, '-00:00:00.5', '2026-11-21 10:11:12.000001', '2026-11-21', '1:2:3')",
    "SET SESSION binlog_row_image = 'MINIMAL'",
    "UPDATE clocks SET a = '00:00:01.25'",
    "SET SESSION binlog_row_image = 'FULL'",
)
_SINCE_5_7 = (
    "CREATE TABLE documents (id int PRIMARY KEY, j json, v int AS (id + 1), p point)",
    """INSERT INTO documents (id, j, p) VALUES
 (1, '{"a": [1, -2.5, "ä", null, true]}', ST_GeomFromText('POINT(1 2)'))""",
)
_SINCE_8_0 = ("UPDATE documents SET j = JSON_SET(j, '$.b', CAST('2026-11-21' AS DATE))",)
_SINCE_9_7 = (
    "CREATE TABLE vectors (id int PRIMARY KEY, v vector(3), hidden int INVISIBLE DEFAULT 7)",
    "SET SESSION binlog_transaction_compression = ON",
    "INSERT INTO vectors (id, v) VALUES (1, STRING_TO_VECTOR('[0.5,-1.25,3e38]')), (2, NULL)",
    "SET SESSION binlog_transaction_compression = OFF",
    "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
    "UPDATE documents SET j = JSON_SET(j, '$.a[0]', 99)",
)
_LATER = {"5.6": _SINCE_5_6, "5.7": _SINCE_5_7, "8.0": _SINCE_8_0, NEWEST: _SINCE_9_7}


def statements(series: str) -> Iterator[str]:
    """What is run on a server of a series."""
    yield "SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'"
    yield from _COMMON
    # MariaDB's JSON is text, and its later numbers are not MySQL's.
    like = "5.6" if series in MARIADB else series
    for since, more in _LATER.items():
        if [int(part) for part in like.split(".")] >= [int(part) for part in since.split(".")]:
            yield from more


def record(series: str, owner: Children) -> None:
    """Record one series."""
    with tempfile.TemporaryDirectory() as folder:
        mysql = _server(series, Path(folder), owner)
        mysql.start()
        facts = facts_of(mysql)
        with connected(mysql) as cursor:
            definitions = _run(cursor, series)
            file, end = _end(cursor)
            steps = steps_of(mysql.data / file, facts.charsets, end=end, mariadb=series in MARIADB)
            events = told(steps, definitions, facts.charsets)
            _confirm(cursor, events)
        head = {
            "server": facts.variables["version"],
            "charsets": _charsets(facts.charsets),
            "definitions": definitions,
        }
        data = (mysql.data / file).read_bytes()[:end]
        mysql.stop()
    place = FOLDER / series
    place.mkdir(exist_ok=True)
    (place / f"{file}{SUFFIX}").write_bytes(data)
    (place / f"{file}.json").write_text(_text({**head, "steps": events}))


def _text(expected: dict[str, Any]) -> str:
    """JSON with a line for each definition and each step, so that a change of one can be seen."""
    parts = []
    for name, value in expected.items():
        if isinstance(value, list):
            items = ",\n".join(json.dumps(one, ensure_ascii=False) for one in value)
            parts.append(f'"{name}": [\n{items}\n]')
        else:
            parts.append(f'"{name}": {json.dumps(value, ensure_ascii=False)}')
    return "{" + ",\n".join(parts) + "}\n"


def _server(series: str, folder: Path, owner: Children) -> Mysql:
    if series in MARIADB:
        software = mariadb.find_or_fetch(series, owner)
        return Mysql(folder, software, owner=owner, flavour=mariadb.MARIADB)
    if series != NEWEST:
        return old_mysql(series, folder, owner=owner)
    return Mysql(folder, mysql_software.find_or_fetch(owner), owner=owner)


def _end(cursor: Any) -> tuple[str, int]:
    cursor.execute("SHOW BINARY LOGS")
    name, size, *_ = cursor.fetchall()[-1]
    return name, int(size)


def _run(cursor: Any, series: str) -> list[Definition]:
    """Run the statements; what each table's columns were after each that makes or changes one."""
    definitions = []
    for statement in statements(series):
        cursor.execute(statement)
        if statement.startswith(("CREATE TABLE", "ALTER TABLE")):
            table = statement.split()[2]
            known = read_definition(cursor, DATABASE, table)
            definitions.append(definition(known.at.pos, f"{DATABASE}.{table}", known.columns))
    return definitions


def _confirm(cursor: Any, events: list[Any]) -> None:
    """Raise unless the changes add up to what the server selects."""
    held: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if "TRUNCATE" in event.get("statement", ""):
            held[f"{DATABASE}.gone"] = []
        if "table" not in event:
            continue
        rows = held.setdefault(event["table"], [])
        before, after = event["before"], event["after"]
        old = next((row for row in rows if before and _is_it(row, before)), {})
        if old:
            rows.remove(old)
        if after is not None:
            rows.append(old | after)
    for name, rows in held.items():
        database, table = name.split(".")
        order = f"`{next(iter(rows[0]))}`" if rows else "1"
        selected = rows_of(cursor, database, table, order_by=order)
        for row, other in zip(
            sorted(rows, key=lambda one: next(iter(one.values()))), selected, strict=True
        ):
            # A row from before a column was added does not hold it.
            wrong = [one for one in row if not same(row[one], other[one], _kind(one, row[one]))]
            if wrong:
                raise AssertionError(f"{name}: {wrong} of {row} is {other}")


def _is_it(row: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a row is the one of an image; either may lack columns."""
    return all(row[name] == value for name, value in before.items() if name in row)


def _kind(name: str, value: Any) -> str:
    """What a number with a fraction is in the tables above."""
    if not isinstance(value, float):
        return "vector" if name == "v" and isinstance(value, list) else ""
    return "float" if name == "f" else "double"


def _charsets(charsets: Charsets) -> dict[str, Any]:
    """The server's character sets as they were read, to make them again without it."""
    collations = {str(number): name for number, name in charsets._collations.items()}
    return {"collations": collations, "widths": charsets._widths}


def main() -> None:
    """Record the series named, else all."""
    owner = Children()
    try:
        for series in sys.argv[1:] or (*SERIES, NEWEST, *MARIADB):
            record(series, owner)
    finally:
        owner.close()


if __name__ == "__main__":
    main()
