"""Record a golden binlog of each series: ``python -m tests.golden.record [SERIES ...]``.

Starts a fresh server, runs the statements of the series' SQL file on it, and keeps its binlog file and what it
must give. Rows are kept only if they add up to what the server itself selects in the end.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from connectors.mysql.charsets import Charsets
from devstack import mariadb, mysql_software
from devstack.mysql import Mysql
from devstack.old_mysql import SERIES, old_mysql
from devstack.processes import Children
from tests.golden.expected import Definition, definition, events_of
from tests.golden.load import SUFFIX, statements, steps_of
from tests.harness.definitions import read_definition
from tests.harness.sql import connected
from tests.integration.worker.oracle import rows_of, same
from tests.integration.worker.source import facts_of

FOLDER = Path(__file__).parent
NEWEST = "9.7"
MARIADB = tuple(mariadb.RELEASES)
DATABASE = "golden"


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
            events = events_of(steps, definitions, facts.charsets)
            _confirm(cursor, events)
        head = {
            "server": facts.variables["version"],
            "charsets": _charsets(facts.charsets),
            "definitions": definitions,
        }
        data = (mysql.data / file).read_bytes()[:end]
        mysql.stop()
    position = FOLDER / series
    position.mkdir(exist_ok=True)
    (position / f"{file}{SUFFIX}").write_bytes(data)
    (position / f"{file}.json").write_text(_text({**head, "steps": events}))


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
    for statement in statements(FOLDER / series / "binlog.000001.sql"):
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
    """Whether a row equals an image; either may lack columns."""
    return all(row[name] == value for name, value in before.items() if name in row)


def _kind(name: str, value: Any) -> str:
    """The type of fractional numbers in the SQL files' tables."""
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
