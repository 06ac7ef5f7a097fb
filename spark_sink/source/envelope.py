"""The envelope of docs/wire.md as Spark sees it, and the conditions under which a record is an envelope.

Invariant: a record that breaks the contract is found with its position and a reason; it never becomes a
row of NULLs.
"""

from __future__ import annotations

from typing import Final

from spark_sink.text.quoting import literal
from wire.changes import SNAPSHOT
from wire.records import (
    HEADER_FORMAT,
    HEADER_NEW_KEY,
    HEADER_OLD_KEY,
    HEADER_REPLACEMENT,
    SOURCE,
    TRANSACTION,
    WIRE_VERSION,
    Field,
    Op,
)

_CORRUPT: Final = "__not_json"
CLAIM: Final = "STRUCT<location STRING, size BIGINT, sha256 STRING>"
IMAGE: Final = "MAP<STRING, STRING>"
"""The Spark type of a row image: its columns' texts by name, parsed together with the envelope."""
MISFIT: Final = "before and after do not fit op"
_TYPES: Final = {"text": "STRING", "texts": "ARRAY<STRING>", "int": "INT", "long": "BIGINT"}
_READ: Final = (
    *("name", "db", "table", "logical_db", "logical_table"),
    *("ts_ms", "seq", "epoch", "schema", "wire"),
)
"""The members of `source` that the sink reads."""


def _struct(fields: dict[str, Field]) -> str:
    return f"STRUCT<{', '.join(f'`{name}` {_TYPES[one.kind]}' for name, one in fields.items())}>"


ENVELOPE: Final = (
    f"before {IMAGE}, after {IMAGE}, absent ARRAY<STRING>, op STRING, "
    f"source {_struct({name: SOURCE[name] for name in _READ})}, "
    f"transaction {_struct(dict(TRANSACTION))}, "
    f"claim_check {CLAIM}, left_out STRING, {_CORRUPT} STRING"
)
LONGEST_TEXT: Final = str(2**31 - 1)
"""Characters of a text in JSON; a reader's own limit is 20 million."""
JSON_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "maxStringLen": LONGEST_TEXT,
}

# Reasons and conditions, which are Spark SQL over the parsed envelope `e`; the first that holds counts.
_FAULTS: Final = (
    ("not a JSON object", f"e IS NULL OR e.{_CORRUPT} IS NOT NULL OR rtrim(text) NOT LIKE '%}}'"),
    ("source is missing", "e.source IS NULL"),
    ("source.wire is missing", "e.source.wire IS NULL"),
    *(
        (f"source.{name} is missing", f"e.source.`{name}` IS NULL")
        for name in ("name", "db", "table", "ts_ms", "seq", "epoch")
    ),
    (
        "source.schema is missing",
        "e.source.`schema` IS NULL AND NOT coalesce(e.op = 't', false)",
    ),
    (
        f"op is none of {', '.join(op.value for op in Op)}",
        f"e.op IS NULL OR e.op NOT IN ({', '.join(literal(op.value) for op in Op)})",
    ),
    (
        MISFIT,
        (
            "e.claim_check IS NULL AND e.left_out IS NULL"
            " AND ((e.before IS NOT NULL) <> (e.op IN ('u', 'd'))"
            " OR (e.after IS NOT NULL) <> (e.op IN ('c', 'u', 'r')))"
        ),
    ),
)


def _has_header(name: str) -> str:
    return f"coalesce(array_contains(headers.key, '{name}'), false)"


def _header(name: str) -> str:
    """The text of a header; NULL without it."""
    # Spark would interpret a lambda function for each record. If headers[...] were part of a condition, Spark
    # would keep only the headers' keys, and then fail.
    value = f"element_at(headers, CAST(array_position(headers.key, '{name}') AS INT)).value"
    return f"if({_has_header(name)}, CAST({value} AS STRING), NULL)"


IS_READ: Final = f"(value IS NOT NULL OR {_has_header(HEADER_REPLACEMENT)})"
"""Whether a record of Kafka has an envelope; tombstones do not."""
TEXT: Final = f"coalesce(CAST(value AS STRING), {_header(HEADER_REPLACEMENT)})"
"""The text of that envelope."""

OTHER_FORMAT: Final = "format "
"""Begins the reason of a record in a format of the mapping's rule `format`, which is not an envelope."""
OTHER_WIRE: Final = "wire "
"""Begins the reason of a record that follows another version of the wire contract."""

# What a batch's rows carry from here on, one Spark expression each.
FIELDS: Final = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "reason": f"CASE WHEN {_has_header(HEADER_FORMAT)} "
    f"THEN concat('{OTHER_FORMAT}', coalesce({_header(HEADER_FORMAT)}, 'without a name')) "
    # A record of another wire number is judged by that alone: the rest may mean something else.
    f"WHEN e.source.wire <> {WIRE_VERSION} THEN concat('{OTHER_WIRE}', e.source.wire) "
    + "".join(f"WHEN {condition} THEN '{reason}' " for reason, condition in _FAULTS)
    + "END",
    "partial": "size(e.absent) > 0",
    "absent": "e.absent",
    # Of a delete, and of the create that follows it: both are halves of a change of the key. Of a truncate:
    # existing rows follow, which replace all earlier rows.
    "moved": " OR ".join(map(_has_header, (HEADER_OLD_KEY, HEADER_NEW_KEY, HEADER_REPLACEMENT))),
    "claim": "e.claim_check",
    "left_out": "e.left_out",
    # `e`: all rows that replace the earlier rows have come.
    "op": "if(is_end, 'e', e.op)",
    "before": "e.before",
    "after": "e.after",
    # Of the whole record, in bytes: the images have no text of their own any more.
    "size": "CAST(octet_length(text) AS BIGINT)",
    "destination": "e.source.name",
    "source_database": "e.source.db",
    "source_table": "e.source.`table`",
    "database": "coalesce(e.source.logical_db, e.source.db)",
    "table": "coalesce(e.source.logical_table, e.source.`table`)",
    # Whether a mapping applies, so that several real tables may fill one table of the warehouse.
    "routed": "e.source.logical_db IS NOT NULL OR e.source.logical_table IS NOT NULL",
    "version": "e.source.`schema`",
    "epoch": "e.source.epoch",
    "seq": "e.source.seq",
    "ts_ms": "e.source.ts_ms",
    "transaction": "e.transaction.id",
    # The number of the row among its transaction's published rows, from 1.
    "ordinal": "e.transaction.total_order",
}

EXISTED: Final = (
    f"coalesce(op IN ('r', 'e') OR (op = 'd' AND transaction LIKE '{SNAPSHOT}%'), false)"
)
"""Whether a record, of these fields, is of a SELECT and of no commit: a row that the SELECT has read, the
delete of a row that only the topic had, or the end of a replacement. The record's time is the time of the
SELECT."""


OF_NO_TABLE: Final = "(database IS NULL OR `table` IS NULL)"
"""The condition that a record, of these fields, names no table. Such a record has a reason."""


def of_table(name: tuple[str, str]) -> str:
    """Return the condition that a record is of a table."""
    return f"(database = {literal(name[0])} AND `table` = {literal(name[1])})"
