"""A record of the DDL topic, as far as it concerns the existence and the names of tables.

Invariant: only what the worker resolved is followed. A table that a schema change tool moves out of the way
keeps its rows: the tool gives its copy the table's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_sink.errors import MalformedRecord, UnsupportedWire
from spark_sink.warehouse.moves import Name, Place
from wire.records import (
    COLUMN_GENERATED,
    ROWS_CHANGED,
    TABLE_COMES_IN,
    TABLE_QUARANTINED,
    TRUNCATE_OMITTED,
    WIRE_VERSION,
)

_COMMENT: Final = re.compile(r"/\*(?!!).*?\*/|(?:--[ \t]|#)[^\n]*", re.DOTALL)
_OF_TABLES: Final = re.compile(
    r"\s*(?:DROP\s+(?:TABLES?|DATABASE|SCHEMA)|RENAME\s+TABLES?)\b", re.IGNORECASE
)
_PARTITION: Final = re.compile(
    r"\b(?:(TRUNCATE|DROP|EXCHANGE|CONVERT)\s+PARTITION\b|(IMPORT|DISCARD)\s+(?:PARTITION\b.*)?TABLESPACE\b)",
    re.IGNORECASE | re.DOTALL,
)
_ALTERED: Final = re.compile(
    r"\s*ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?"
    r"(?P<first>`(?:[^`]|``)+`|[^\s`.(]+)(?:\s*\.\s*(?P<second>`(?:[^`]|``)+`|[^\s`.(]+))?",
    re.IGNORECASE,
)
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement: the tables that it renames, drops and creates."""

    destination: str
    epoch: int
    seq: int
    ts_ms: int
    renamed: Mapping[Name, Name] = field(default_factory=dict)
    """From the name before the statement to the name after it; a name in between is omitted."""
    dropped: tuple[Name, ...] = ()
    created: tuple[Name, ...] = ()
    come_in: tuple[Name, ...] = ()
    """Names of tables that were not captured under their earlier names."""
    emptied: tuple[tuple[Name, str], ...] = ()
    """Tables that lost rows which no record names, each with the cause."""
    omitted: tuple[Name, ...] = ()
    """Tables whose TRUNCATE is in no row topic, as the worker's settings omit it."""
    altered: tuple[tuple[Name, int], ...] = ()
    """Tables that the statement altered or renamed, by their names after it, each with its new version."""
    is_unknown: bool = False
    """Whether tables were dropped or renamed that the record does not name."""

    @property
    def place(self) -> Place:
        """The position of the statement among the rows of its destination."""
        return self.epoch, self.seq


def parse_statement(value: str, where: str) -> Statement:
    """Parse a value of a DDL topic; `where` is its position. Raise MalformedRecord, UnsupportedWire."""
    try:
        body = json.loads(value)
        source = body["source"]
        if source["wire"] != WIRE_VERSION:
            raise UnsupportedWire(
                f"{where}: wire {source['wire']}", advice="Use a sink of the worker's version"
            )
        return _statement(body, source)
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise MalformedRecord(
            f"{where}: {type(fault).__name__} {fault}",
            advice="To skip the topic, add it to exclude",
        ) from fault


def _statement(body: dict[str, Any], source: dict[str, Any]) -> Statement:
    tables: list[dict[str, Any]] = body.get("tables", [])
    kinds = [(one["kind"], (one["database"], one["table"])) for one in body.get("effects", ())]
    aside = {name for kind, name in kinds if kind == TABLE_QUARANTINED}
    now = _names_after(tables, aside)
    text = _COMMENT.sub(" ", body["ddl"])
    return Statement(
        destination=str(source["name"]),
        epoch=int(source["epoch"]),
        seq=int(source["seq"]),
        ts_ms=int(source["ts_ms"]),
        renamed={old: new for old, new in now.items() if new is not None and new != old},
        dropped=tuple(old for old, new in now.items() if new is None),
        created=tuple(_named(one) for one in tables if one["change"] == "created"),
        altered=tuple(
            (_named(one), int(one["version"])) for one in tables if one.get("version") is not None
        ),
        come_in=tuple(name for kind, name in kinds if kind == TABLE_COMES_IN),
        omitted=tuple(name for kind, name in kinds if kind == TRUNCATE_OMITTED),
        emptied=tuple(
            _changed_rows(body.get("effects", ())) or _emptied(text, body.get("database"))
        ),
        is_unknown="tables" not in body and _OF_TABLES.match(text) is not None,
    )


def _names_after(tables: Iterable[dict[str, Any]], aside: set[Name]) -> dict[Name, Name | None]:
    """The names, after a statement, of the tables that existed before it; None if dropped.

    The record lists the statement's steps in order: a swap goes through a third name. The step that leaves the
    third name is missing, as no table keeps that name; the step that arrives states the third name.
    """
    now: dict[Name, Name | None] = {}
    for one in tables:
        name = _named(one)
        if name in aside:
            continue
        if one["change"] == "dropped" or one["renamed_to"] is not None:
            first = next((old for old, new in now.items() if new == name), name)
            now[first] = None if one["change"] == "dropped" else _named(one["renamed_to"])
        elif one["renamed_from"] is not None:
            before = _named(one["renamed_from"])
            now |= {old: name for old, new in now.items() if new == before}
    return now


def _named(one: dict[str, Any]) -> Name:
    return str(one["database"]), str(one["table"])


def _changed_rows(effects: Iterable[dict[str, Any]]) -> list[tuple[Name, str]]:
    """The tables with changed rows that no record names, as the worker reports them, each with the cause."""
    found = []
    for one in effects:
        if one["kind"] == ROWS_CHANGED:
            found.append((_named(one), str(one["new"])))
        elif one["kind"] == COLUMN_GENERATED:
            found.append((_named(one), f"recomputation of {one['column']}"))
    return found


def _emptied(text: str, database: str | None) -> Iterable[tuple[Name, str]]:
    """What an ALTER TABLE does with partitions; its effect on rows is in no record."""
    altered = _ALTERED.match(text)
    found = _PARTITION.search(_TEXT.sub("''", text)) if altered else None
    if altered is None or found is None:
        return
    first, second = _plain(altered["first"]), _plain(altered["second"])
    verb = next(one for one in found.groups() if one).upper()
    what = "TABLESPACE" if verb in {"IMPORT", "DISCARD"} else "PARTITION"
    yield (first, second) if second else (database or "", first), f"{verb} {what}"


def _plain(name: str | None) -> str:
    if name is None or not name.startswith("`"):
        return name or ""
    return name[1:-1].replace("``", "`")
