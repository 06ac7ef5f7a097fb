"""The envelope of docs/wire.md as Spark sees it, and what makes a record one of its kind.

Invariant: a record that breaks the contract is found with its place and its reason; it never becomes a
row of NULLs.
"""

from __future__ import annotations

from typing import Final

from spark_sink.wire.names import literal

NUMBER: Final = 1

_CORRUPT: Final = "__not_json"
CLAIM: Final = "STRUCT<location STRING, size BIGINT, sha256 STRING>"
IMAGE: Final = "MAP<STRING, STRING>"
"""The Spark type of a row image: its columns' texts by name, parsed together with the envelope."""
MISFIT: Final = "before and after do not fit op"
ENVELOPE: Final = (
    f"before {IMAGE}, after {IMAGE}, absent ARRAY<STRING>, op STRING, "
    "source STRUCT<name STRING, db STRING, `table` STRING, logical_db STRING, "
    "logical_table STRING, ts_ms BIGINT, seq BIGINT, epoch BIGINT, `schema` INT, wire INT>, "
    "transaction STRUCT<id STRING, total_order BIGINT>, "
    f"claim_check {CLAIM}, left_out STRING, {_CORRUPT} STRING"
)
OLD_KEY: Final = "__debezium.oldkey"
FORMAT: Final = "format"
REPLACEMENT: Final = "replacement"
"""Of a truncate that existing rows of its table follow, and of the record without a value that ends them."""
NEW_KEY: Final = "__debezium.newkey"
LONGEST_TEXT: Final = str(2**31 - 1)
"""Characters of a text in JSON; a reader's own limit is 20 million."""
JSON_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "maxStringLen": LONGEST_TEXT,
}

# The first that holds is the reason; each is a Spark condition over the parsed envelope `e`.
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
    ("op is none of c, u, d, r, t", "e.op IS NULL OR e.op NOT IN ('c', 'u', 'd', 'r', 't')"),
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
    # No lambda function, which Spark would interpret for each record; and no headers[...], of which Spark keeps
    # only the keys where this is part of a condition, and then fails.
    value = f"element_at(headers, CAST(array_position(headers.key, '{name}') AS INT)).value"
    return f"if({_has_header(name)}, CAST({value} AS STRING), NULL)"


IS_READ: Final = f"(value IS NOT NULL OR {_has_header(REPLACEMENT)})"
"""Whether a record of Kafka has an envelope: tombstones have none."""
TEXT: Final = f"coalesce(CAST(value AS STRING), {_header(REPLACEMENT)})"
"""The text of that envelope."""


# What a batch's rows carry from here on, one Spark expression each.
FIELDS: Final = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "reason": "CASE "
    # A record of another wire number is judged by that alone: the rest may mean something else.
    + "".join(
        f"WHEN {'e.source.wire = 1 AND ' if place > 2 else ''}({condition}) THEN '{reason}' "
        for place, (reason, condition) in enumerate(_FAULTS)
    )
    + "END",
    # Of a record that is not an envelope, as the mapping's rule `format` has it.
    "format": _header(FORMAT),
    "wire": "e.source.wire",
    "partial": "size(e.absent) > 0",
    "absent": "e.absent",
    # One half of a change of the key: a delete, or the create that follows it. Of a truncate: existing rows
    # follow, which replace those before.
    "moved": f"{_has_header(OLD_KEY)} OR {_has_header(NEW_KEY)} OR {_has_header(REPLACEMENT)}",
    "claim": "e.claim_check",
    "left_out": "e.left_out",
    # `e`: all rows that replace those before have come.
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
    # Of a transaction's published rows, the first has 1.
    "ordinal": "e.transaction.total_order",
}

EXISTED: Final = "coalesce(op IN ('r', 'e') OR (op = 'd' AND transaction LIKE 'snapshot:%'), false)"
"""Whether a record, of these fields, is of a SELECT and of no commit: a row that it has read, the delete of
one that only the topic had, or the end of all. Its time is that of the SELECT."""

_MARK: Final = "aqueduct-poison"


def of_table(name: tuple[str, str]) -> str:
    """The condition that a record is of a table."""
    return f"(database = {literal(name[0])} AND `table` = {literal(name[1])})"


def poison_sql(reason: str) -> str:
    """A Spark expression that stops the job and names the record it is evaluated on."""
    return f"raise_error(concat_ws('|', '{_MARK}', topic, partition, offset, {reason}, '{_MARK}'))"


def refused_record(message: str) -> str | None:
    """Which record stopped a job, from the job's error message."""
    parts = message.split(_MARK + "|", 1)
    if len(parts) == 1:
        return None
    topic, partition, offset, reason = parts[1].split("|" + _MARK, 1)[0].split("|", 3)
    return place(topic, partition, offset, reason)


def place(topic: str, partition: int | str, offset: int | str, reason: str = "") -> str:
    """The position of a record, as errors print it."""
    where = f"topic {topic}, partition {partition}, offset {offset}"
    return f"{where}: {reason}" if reason else where
