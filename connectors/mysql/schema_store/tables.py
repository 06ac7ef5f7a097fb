"""The two tables of a central schema store, in Canal's form: their creation and checks.

Invariant: names, types and keys are Canal's, including its spelling of ``binlog_offest``, so that
readers of Canal's tables can read these. A table of another shape is refused by name and never altered.
Source: the TSDB's ``meta_snapshot`` and ``meta_history`` in Canal's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from pymysql.cursors import Cursor

SNAPSHOT, HISTORY = "meta_snapshot", "meta_history"

KEY = ("destination", "binlog_master_id", "binlog_file", "binlog_offest")
"""The columns that identify a row."""
_POSITION = ("destination", "binlog_file", "binlog_offest", "binlog_master_id", "binlog_timestamp")
COLUMNS = {
    SNAPSHOT: (*_POSITION, "data", "extra"),
    HISTORY: (*_POSITION, "use_schema", "sql_schema", "sql_table", "sql_text", "sql_type", "extra"),
}
"""All columns except the id and the two times."""

_BEGIN = """\
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT COMMENT 'primary key',
  `gmt_create` datetime NOT NULL COMMENT 'when this was written, UTC',
  `gmt_modified` datetime NOT NULL COMMENT 'when this changed last, UTC',
  `destination` varchar(128) DEFAULT NULL COMMENT 'destination',
  `binlog_file` varchar(64) DEFAULT NULL COMMENT 'binlog file',
  `binlog_offest` bigint(20) DEFAULT NULL COMMENT 'offset in that file',
  `binlog_master_id` varchar(64) DEFAULT NULL COMMENT 'the server, by its UUID',
  `binlog_timestamp` bigint(20) DEFAULT NULL COMMENT 'when it happened, milliseconds since 1970',
"""
_KEYS = """\
  PRIMARY KEY (`id`),
  UNIQUE KEY `binlog_file_offest` (`destination`,`binlog_master_id`,`binlog_file`,`binlog_offest`),
  KEY `destination` (`destination`),
  KEY `destination_timestamp` (`destination`,`binlog_timestamp`),
  KEY `gmt_modified` (`gmt_modified`)
"""
_OWN = {
    SNAPSHOT: """\
  `data` longtext COMMENT 'of each schema the statements that make it',
  `extra` text COMMENT 'what else is known',
""",
    HISTORY: """\
  `use_schema` varchar(1024) DEFAULT NULL COMMENT 'default schema of the session',
  `sql_schema` varchar(1024) DEFAULT NULL COMMENT 'schemas that it touched',
  `sql_table` varchar(1024) DEFAULT NULL COMMENT 'tables that it touched',
  `sql_text` longtext COMMENT 'the statement',
  `sql_type` varchar(256) DEFAULT NULL COMMENT 'its type',
  `extra` text COMMENT 'what else is known',
""",
}
_COMMENTS = {SNAPSHOT: "schemas as of a place", HISTORY: "statements that changed schemas"}

_LENGTHS = {
    "destination": 128, "binlog_file": 64, "binlog_master_id": 64, "use_schema": 1024,
    "sql_schema": 1024, "sql_table": 1024, "sql_text": 2**32 - 1, "sql_type": 256,
    "data": 2**32 - 1, "extra": 2**16 - 1,
}  # fmt: skip
_NUMBERS = {"id", "binlog_offest", "binlog_timestamp"}


def creation(table: str) -> str:
    """Return the statement that creates a table.

    It sets the collation, because names must compare exactly and the server's default may not be UTF-8.
    """
    return (
        f"CREATE TABLE IF NOT EXISTS `{table}` (\n{_BEGIN}{_OWN[table]}{_KEYS}) ENGINE=InnoDB "
        f"DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='{_COMMENTS[table]}'"
    )


def exists(cursor: Cursor, database: str, table: str) -> bool:
    """Whether the table exists and the account may see it."""
    cursor.execute(
        "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s",
        (database, table),
    )
    return bool(cursor.fetchall())


def faults(cursor: Cursor, database: str, table: str) -> Iterator[str]:
    """Yield the differences of a table from the expected table; a larger capacity is accepted."""
    cursor.execute(_SHAPE, (database, table))
    found = {row[0].lower(): row[1:] for row in cursor.fetchall()}
    for name in ("id", "gmt_create", "gmt_modified", *COLUMNS[table]):
        if name not in found:
            yield f"{table} has no column {name}"
        elif not _fits(name, *found[name][:2]):
            yield f"{table}.{name} is {found[name][0]}({found[name][1]})"
    known = {"id", "gmt_create", "gmt_modified", *COLUMNS[table]}
    for name, (_, _, nullable, default, extra) in found.items():
        if name not in known and nullable == "NO" and default is None and "auto" not in extra:
            yield f"{table}.{name} demands a value"
    if "auto_increment" not in found.get("id", ("", 0, "", None, "auto_increment"))[4]:
        yield f"{table}.id is not AUTO_INCREMENT"
    if not _has_key(cursor, database, table):
        yield f"{table} has no UNIQUE KEY ({', '.join(KEY)})"


_SHAPE = """SELECT column_name, data_type, character_maximum_length, is_nullable, column_default, extra
    FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"""


def _fits(name: str, kind: str, length: int | None) -> bool:
    if name in _NUMBERS:
        return kind == "bigint"
    if name in _LENGTHS:
        return length is not None and length >= _LENGTHS[name]
    return kind in ("datetime", "timestamp")


def _has_key(cursor: Cursor, database: str, table: str) -> bool:
    cursor.execute(
        "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = %s "
        "AND table_name = %s AND non_unique = 0 AND sub_part IS NULL",
        (database, table),
    )
    keys: dict[str, set[str]] = {}
    for index, column in cursor.fetchall():
        keys.setdefault(index, set()).add(str(column).lower())
    return set(KEY) in keys.values()
