"""Correctly published rows of every type, image and character set: the audit has no findings.

What the worker publishes is held against what each witness reads of the same binlog, without Kafka between. An
ordinary run takes some character sets and some of their characters, `make test SUITE=audit` all.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from app.audit.change_store import Change
from app.audit.table_shape import decoder_of
from app.audit.topics.record_comparison import Comparer
from app.audit.truth import printed_events as printed
from app.audit.truth.mysql_replication import ReplicationBinlog
from app.audit.truth.mysqlbinlog import BinlogFiles
from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from connectors.mysql.rows.compiled import Row
from connectors.mysql.rows.decoder import UPDATES, WRITES
from devstack import Stack
from devstack.mysql import Mysql
from tables.history.present_columns import Described
from tables.rules.routes.routes import Routes
from tests.harness.sql import run
from tests.hostile import NAMES, quoted
from tests.integration.ddl_tools.source import recording_metadata, server_of, table_of
from tests.integration.old_mysql.source import charsets_of
from tests.integration.worker.families import FAMILIES, statements_for
from tests.integration.worker.source import address_of, end_of, written
from tests.integration.worker.test_charsets_oracle import DOUBLE, SINGLE, UNICODE, sequences
from tests.integration.worker.test_json_oracle import DOCUMENTS
from tests.steps import Rows

DATABASE = "innocent"
IMAGES = ("FULL", "NOBLOB", "MINIMAL")
_ALL = os.environ.get("AUDIT") == "all"
_SOME = ("swe7", "cp1250", "latin1", "utf8mb4", "utf16", "big5", "tis620")
_FEW = ("latin1", "utf16", "big5")
"""Character sets of rows that do not name them, one of each width."""
_SETS = {
    "FULL": (*SINGLE, *DOUBLE, *UNICODE) if _ALL else _SOME,
    "MINIMAL": _SOME if _ALL else _FEW,
}
UNPRINTABLE = {"places"}
"""Families that mysqlbinlog cannot print."""


@pytest.fixture(scope="module")
def mysql(stack: Stack) -> Mysql:
    run(
        stack.mysql,
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.numbers (n int primary key)",
        f"INSERT INTO {DATABASE}.numbers VALUES (1), (2), (3)",
    )
    return stack.mysql


def published(
    mysql: Mysql, table: str, steps: Iterable[object]
) -> tuple[list[tuple[str, Row]], Described]:
    """The table's rows as the worker decodes them, and the version that consumers have."""
    known = table_of(mysql, DATABASE, table)
    book = CapturedTables(
        Routes(prefix="aq"),
        charsets_of(mysql),
        server=server_of(mysql),
        known={(DATABASE, table): known},
    )
    rows: list[tuple[str, Row]] = []
    version = None
    for step in steps:
        if isinstance(step, Rows):
            captured = book.of(step.table_map)
            assert isinstance(captured, CapturedTable)
            code = step.event_type
            kind = "c" if code in WRITES else "u" if code in UPDATES else "d"
            rows += [(kind, row) for row in captured.rows(step.event_type, step.body)]
            version = captured.definition
    assert version is not None
    columns = version.columns
    return rows, Described(
        columns=tuple(column.name for column in columns),
        types=tuple(column.type for column in columns),
        charsets=tuple(column.charset for column in columns),
        primary_key=version.primary_key,
        topic="",
    )


def faults(
    mysql: Mysql, table: str, *statements: str, metadata: str = "FULL", alone: bool = False
) -> tuple[list[str], Counter[str]]:
    """The audit's findings on the rows of these statements, and what it could not judge."""
    with recording_metadata(mysql, metadata):
        run(mysql, "FLUSH BINARY LOGS")
        file = end_of(mysql).file
        steps = written(mysql, *statements, database=DATABASE)
    assert end_of(mysql).file == file
    ours, version = published(mysql, table, steps)
    assert mysql.mysqlbinlog is not None
    log = BinlogFiles(paths=(mysql.data / file,), server_uuid="", program=mysql.mysqlbinlog)
    theirs = [event for event in printed.events(log.lines(file)) if isinstance(event, printed.Row)]
    found, unjudged = compared(ours, theirs, version)
    if metadata == "FULL" and not alone:
        found += [f"mysql-replication: {fault}" for fault in second(mysql, file, ours, version)]
    return found, unjudged


def compared(
    ours: list[tuple[str, Row]], theirs: list[printed.Row], version: Described
) -> tuple[list[str], Counter[str]]:
    """A witness's findings on our rows, and what it could not judge."""
    assert len(ours) == len(theirs) > 0
    unjudged: Counter[str] = Counter()
    comparer, found = Comparer(unjudged, Routes(prefix="aq").of), list[str]()
    for n, ((op, row), result) in enumerate(zip(ours, theirs, strict=True)):
        change = Change(n, n, result.kind, result.shape, result.pos, result.before, result.after)
        found += _fault(comparer, change, value(op, row), version)
    return found, unjudged


UNTOLD = "which the witness cannot distinguish"
BLURRED = {f"{kind}, {UNTOLD}" for kind in ("DATE", "DATETIME", "TIME", "JSON")} | {
    "JSON, partial",
    "GEOMETRY",
}
"""The values that the second witness leaves unjudged here, except text and labels in other character sets."""


def second(mysql: Mysql, file: str, ours: list[tuple[str, Row]], version: Described) -> list[str]:
    """The findings of mysql-replication, or values left unjudged beyond those in the docs."""
    log = ReplicationBinlog.of(address_of(mysql))
    events = [event for event in log.events(file) if isinstance(event, printed.Row)]
    found, unjudged = compared(ours, events, version)
    for what in unjudged:
        kind = what.partition(": ")[2]
        is_text = kind in ("VARCHAR", "ENUM", "SET") or "Unicode lacks" in kind
        if kind not in BLURRED and not is_text:
            found.append(f"not judged: {what}")
    return found


def _fault(
    comparer: Comparer, change: Change, value: dict[str, Any], version: Described
) -> list[str]:
    columns = comparer.columns(change.shape, version)
    moved = columns is not None and columns.moves(change)
    halves = [("0", "d", "before"), ("1", "c", "after")] if moved else [("", value["op"], "")]
    found: list[str] = []
    for half, op, only in halves:
        one = value | {"op": op}
        if only:
            one |= {"before": None, "after": None, only: value[only]}
        fault = comparer.fault(change, one, half, version)
        found += [f"{change.kind} {change.n}: {fault}"] if fault else []
    return found


def value(op: str, row: Row) -> dict[str, Any]:
    """The members of a record that the audit compares."""
    before, after, _, _, marks = row
    return {
        "op": op,
        "before": None if before is None else json.loads(before),
        "after": None if after is None else json.loads(after),
        **json.loads(f"{{{marks or ''}}}"),
    }


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - UNPRINTABLE))
def test_values_of_every_type(mysql: Mysql, family: str, metadata: str) -> None:
    table = f"{family}_{metadata}".lower()
    made = statements_for(f"{DATABASE}.{table}", FAMILIES[family]())
    if family == "times" and metadata == "FULL":
        # A DATE that is no day ends the second witness; with MINIMAL it is judged by the first alone.
        made = [sql.replace("'2023-02-31')", "NULL)") for sql in made]
    found, unjudged = faults(
        mysql, table, *made, f"DELETE FROM {table} WHERE id > 1", metadata=metadata
    )
    assert found == []
    assert {what.rpartition(" ")[2] for what in unjudged} <= {"VARCHAR"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_every_character_of_every_set_in_text_labels_and_keys(mysql: Mysql, metadata: str) -> None:
    wrong, judged = {}, set()
    for charset in _SETS[metadata]:
        table = f"{charset}_{metadata}".lower()
        raws = ["41", "0041", "00000041", "c3a4", "00e4"]
        if charset not in UNICODE:
            every = 1 if _ALL else 61 if charset in DOUBLE else 3
            raws = [raw.hex() for raw in sequences(charset)[::every]]
        values = ", ".join(f"({n}, x'{raw}')" for n, raw in enumerate(raws))
        found, unjudged = faults(
            mysql,
            table,
            "SET SESSION sql_mode = ''",
            f"CREATE TABLE {table} (n INT PRIMARY KEY, t VARCHAR(9), e ENUM('a', '[é]', 'Ä\\\\'),"
            " s SET('x', '{Ö}'),"
            f" k VARCHAR(9)) CHARACTER SET {charset}",
            f"INSERT IGNORE INTO {table} (n, t) VALUES {values}",
            f"INSERT IGNORE INTO {table} VALUES (90001, 'é', 1, 1, 'k'),"
            " (90002, 'b', 2, 2, 'k'), (90003, 'c', 3, 3, 'k')",
            f"UPDATE {table} SET t = k WHERE n > 90000",
            metadata=metadata,
            # The second witness reads bytes, and text is compared alike: a few sets show it.
            alone=charset not in _SOME,
        )
        if found:
            wrong[charset] = (len(found), found[:4])
        if decoder_of(charset) is not None:
            judged.add(charset)
            assert all("Unicode lacks" in what for what in unjudged), (charset, unjudged)
    assert wrong == {}
    assert judged >= {"swe7", "cp1250", "latin1", "utf8mb4"} & set(_SETS[metadata])


@pytest.mark.parametrize("image", IMAGES)
def test_documents_whole_and_in_part(mysql: Mysql, image: str) -> None:
    table = f"documents_{image}".lower()
    big = "JSON_OBJECT('big', REPEAT('x', 300), 'n', 1, 'l', JSON_ARRAY(1, 'two', NULL))"
    found, unjudged = faults(
        mysql,
        table,
        f"CREATE TABLE {table} (id INT PRIMARY KEY, j JSON, t VARCHAR(9))",
        *(f"INSERT INTO {table} VALUES ({n}, {one}, 't')" for n, one in enumerate(DOCUMENTS)),
        f"INSERT INTO {table} VALUES (1000, {big}, 't'), (1001, '\"\\\\f\\\\u000c\"', '\\f\x0b\x0c')",
        f"SET SESSION binlog_row_image = {image}",
        f"UPDATE {table} SET t = 'u' WHERE id < 5",
        f"UPDATE {table} SET j = '[1]' WHERE id = 7",
        "SET SESSION binlog_row_image = FULL, binlog_row_value_options = PARTIAL_JSON",
        f"UPDATE {table} SET j = JSON_SET(j, '$.n', 'null', '$.l[1]', CAST('null' AS JSON), '$.new', 2.5)"
        " WHERE id = 1000",
        f"UPDATE {table} SET j = JSON_REMOVE(j, '$.l[0]'), t = 'v' WHERE id = 1000",
        f"UPDATE {table} SET id = 2000, j = JSON_SET(j, '$.n', 7) WHERE id = 1000",
        f"DELETE FROM {table} WHERE id > 3",
    )
    assert found == []
    assert set(unjudged) <= {f"{DATABASE}.{table}.j: JSON, partial"}


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("image", IMAGES)
def test_images_with_moved_keys_control_characters_and_quotes(
    mysql: Mysql, image: str, metadata: str
) -> None:
    table = f"images_{image}_{metadata}".lower()
    text = "".join(f"{n:02x}" for n in range(128))
    found, unjudged = faults(
        mysql,
        table,
        f"CREATE TABLE {table} (`a, b` INT, `c``d` VARCHAR(20), b BLOB, t TEXT, u VARCHAR(200),"
        " PRIMARY KEY (`c``d`, `a, b`))",
        f"SET SESSION binlog_row_image = {image}",
        f"INSERT INTO {table} VALUES (1, 'x', x'00ff0c', x'{text}', x'{text}'),"
        " (2, 'NULL', NULL, '!! ', '### @1=2')",
        f"UPDATE {table} SET u = 'NULL', t = CONCAT(t, '\\n# at 4\\n') WHERE `a, b` = 1",
        f"UPDATE {table} SET `a, b` = 3 WHERE `a, b` = 1",
        f"UPDATE {table} SET `c``d` = 'X' WHERE `a, b` = 3",
        f"DELETE FROM {table}",
        metadata=metadata,
    )
    assert found == []
    assert dict(unjudged) == {}


def test_names_that_look_like_what_a_witness_prints(mysql: Mysql) -> None:
    names = [name for name in NAMES if "😀" not in name] + PRINTED
    columns = ", ".join(f"{quoted(name)} INT NOT NULL" for name in names)
    keys = ", ".join(map(quoted, [*PRINTED, *names[:8]]))
    for table in PRINTED[:3]:
        at = f"{DATABASE}.{quoted(table)}"
        found, unjudged = faults(
            mysql,
            table,
            f"CREATE TABLE {at} ({columns}, PRIMARY KEY ({keys}))",
            f"INSERT INTO {at} VALUES ({', '.join('1' for _ in names)})",
            f"UPDATE {at} SET {quoted(PRINTED[0])} = 2",
        )
        assert (found, dict(unjudged)) == ([], {})


PRINTED = [
    "x\n# at 4\n.",
    "x\n### INSERT INTO `a`.`b`\n### SET\n###   @1=5", "y`\n#         `z` INT,\n.", "a, b", "a(3)",
    "a\n#261122 22:35:18 server id 77  end_log_pos 12 \tXid = 5",
]  # fmt: skip


def test_bits_of_an_image_that_are_no_columns(mysql: Mysql) -> None:
    """MySQL sets them, in images without BLOB and TEXT."""
    found, unjudged = faults(
        mysql,
        "spare",
        f"CREATE TABLE spare (id INT PRIMARY KEY, {', '.join(f'c{n} INT' for n in range(23))}, t TEXT)",
        "INSERT INTO spare (id, c1, t) VALUES (1, 1, 'a'), (2, 2, 'b')",
        "SET SESSION binlog_row_image = NOBLOB",
        "UPDATE spare AS a, spare AS b SET a.c1 = b.c1 WHERE a.id = 1 AND b.id = 2",
        "UPDATE spare SET t = 'c' WHERE id = 2",
        "DELETE FROM spare",
    )
    assert (found, dict(unjudged)) == ([], {})


def test_the_second_witness_names_tables_that_it_cannot_read_and_reads_the_others(
    mysql: Mysql,
) -> None:
    run(mysql, "FLUSH BINARY LOGS")
    file = end_of(mysql).file
    run(
        mysql,
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        "CREATE TABLE vectors (v VECTOR(3), id INT PRIMARY KEY, t DATETIME(3))",
        "CREATE TABLE days (id INT PRIMARY KEY, d DATE)",
        "CREATE TABLE others (id INT PRIMARY KEY)",
        "INSERT INTO vectors VALUES (STRING_TO_VECTOR('[1,2,3]'), 1, NOW(3)), (NULL, 2, NULL)",
        "INSERT INTO days VALUES (1, '2023-02-31')",
        "INSERT INTO days VALUES (2, '2024-02-29')",
        "BEGIN",
        "INSERT INTO others VALUES (1)",
        "DELETE FROM vectors",
        "INSERT INTO others VALUES (2)",
        "COMMIT",
        database=DATABASE,
    )
    events = list(ReplicationBinlog.of(address_of(mysql)).events(file))
    unread = [(e.shape.table, e.why) for e in events if isinstance(e, printed.UnreadableRows)]
    vectors = ("vectors", "a column of type VECTOR")
    day = ("days", "ValueError: day is out of range for month")
    assert unread == [vectors, day, vectors]
    rows = [event for event in events if isinstance(event, printed.Row)]
    assert [(row.shape.table, row.after) for row in rows] == [
        ("days", b"1=2\n2='2024-02-29'"),
        ("others", b"1=1"),
        ("others", b"1=2"),
    ]
