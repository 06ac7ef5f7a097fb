"""Records and checkpoints of the schema history as JSON and back.

Invariant: every column of Canal's ``meta_history`` and ``meta_snapshot`` has its own field; default
values are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from connectors.mysql.ddl.definition import Database, Table, TableName, ViewChange
from connectors.mysql.position import Coordinates, parse_gtids
from tables.history.checkpoint import CheckpointHead, SchemaCheckpoint
from tables.history.definition_json import (
    Definitions,
    change_json,
    named,
    server_from,
    server_json,
    session_json,
)
from tables.history.position import HistoryPosition
from tables.history.record import Given, SchemaRecord, Unresolved


def position_json(position: HistoryPosition) -> dict[str, Any]:
    """A position in the stream."""
    found: dict[str, Any] = {
        "server_uuid": position.server_uuid,
        "file": position.start.file,
        "pos": position.start.pos,
        "end_pos": position.end.pos,
        "ts_ms": position.ts_ms,
        "server_id": position.server_id,
        "thread": position.thread,
    }
    if position.end.file != position.start.file:
        found["end_file"] = position.end.file
    if position.gtid is not None:
        found["gtid"] = position.gtid
    if position.gtid_set is not None:
        found["gtid_set"] = str(position.gtid_set)
    if position.user is not None:
        found["user"] = position.user
    return found


def record_json(record: SchemaRecord) -> dict[str, Any]:
    """A record of the history."""
    found: dict[str, Any] = {
        "destination": record.destination,
        "number": record.number,
        "kind": record.kind,
        **position_json(record.position),
        "statement": record.statement,
        "type": record.type,
        "session": session_json(record.session),
        "changes": [change_json(change) for change in record.changes],
    }
    if record.reason is not None:
        found["reason"] = record.reason
        found["unresolved"] = record.unresolved
    if record.amends is not None:
        found["amends"] = record.amends
        found["current"] = record.current
    if record.given is not None:
        found["given"] = given_json(record.given)
    if record.unchanged:
        found["unchanged"] = record.unchanged
    if record.views:
        found["views"] = [[one.name, one.is_there] for one in record.views]
    return found


def given_json(given: Given | None) -> dict[str, Any] | None:
    """The author of a statement about a table."""
    if given is None:
        return None
    return {"by": given.by, "ts_ms": given.ts_ms, "source": given.source}


def given_from(value: dict[str, Any] | None) -> Given | None:
    """Read what ``given_json`` wrote."""
    if value is None:
        return None
    return Given(by=value["by"], ts_ms=value["ts_ms"], source=value["source"])


def head_json(head: CheckpointHead) -> dict[str, Any]:
    """The head of a checkpoint."""
    return {
        "destination": head.destination,
        "number": head.number,
        "count": head.count,
        "parts": head.parts,
        "made_ms": head.made_ms,
        "begins": head.begins,
        **position_json(head.position),
        "server": server_json(head.server),
    }


def items_json(checkpoint: SchemaCheckpoint) -> list[list[Any]]:
    """The content of a checkpoint, item by item: its kind, its name, and its value."""
    items: list[list[Any]] = []
    for name, database in checkpoint.databases.items():
        items.append(["database", name, [database.charset, database.collation]])
    for table_name, table in checkpoint.tables.items():
        text, digest = named(table)
        items.append(["table", table_name, [orjson.Fragment(text), digest]])
    for table_name, state in checkpoint.unresolved.items():
        positions = [position_json(state.since), position_json(state.last)]
        items.append(["unresolved", table_name, [state.reason, *positions]])
    for table_name, since in checkpoint.dropped.items():
        items.append(["dropped", table_name, position_json(since)])
    items += (["view", name, True] for name in sorted(checkpoint.views))
    items += (["given", record.tables[0], record_json(record)] for record in checkpoint.given)
    return items


class Reading:
    """Reads records and checkpoints; equal values become one object."""

    def __init__(self) -> None:
        self.definitions = Definitions()
        self._texts: dict[str, str] = {}

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    def position(self, value: dict[str, Any]) -> HistoryPosition:
        """Read what ``position_json`` wrote."""
        file, gtid_set = self._text(value["file"]), value.get("gtid_set")
        start = Coordinates(file, value["pos"])
        end_file = self._text(value["end_file"]) if "end_file" in value else file
        return HistoryPosition(
            server_uuid=self._text(value["server_uuid"]),
            start=start,
            end=Coordinates(end_file, value["end_pos"]),
            gtid=value.get("gtid"),
            gtid_set=None if gtid_set is None else parse_gtids(gtid_set),
            ts_ms=value["ts_ms"],
            server_id=value["server_id"],
            thread=value["thread"],
            user=value.get("user"),
        )

    def record(self, value: dict[str, Any]) -> SchemaRecord:
        """Read what ``record_json`` wrote.

        Raise KeyError, TypeError, ValueError or IndexError for another value.
        """
        definitions = self.definitions
        return SchemaRecord(
            destination=self._text(value["destination"]),
            number=value["number"],
            kind=value["kind"],
            position=self.position(value),
            statement=value["statement"],
            type=self._text(value["type"]),
            session=definitions.session(value["session"]),
            changes=tuple([definitions.change(change) for change in value["changes"]]),
            reason=value.get("reason"),
            unresolved=tuple([definitions.name(name) for name in value.get("unresolved", ())]),
            amends=value.get("amends"),
            current=value.get("current", True),
            given=given_from(value.get("given")),
            unchanged=tuple([definitions.name(name) for name in value.get("unchanged", ())]),
            views=tuple(
                [
                    ViewChange(name=definitions.name(name), is_there=is_there)
                    for name, is_there in value.get("views", ())
                ]
            ),
        )

    def head(self, value: dict[str, Any]) -> CheckpointHead:
        """Read what ``head_json`` wrote; raise as ``record`` does."""
        return CheckpointHead(
            destination=value["destination"],
            number=value["number"],
            position=self.position(value),
            made_ms=value["made_ms"],
            count=value["count"],
            server=server_from(value["server"]),
            begins=value["begins"],
            parts=value["parts"],
        )

    def checkpoint(self, head: CheckpointHead, items: Iterable[list[Any]]) -> SchemaCheckpoint:
        """Read what ``items_json`` wrote; raise as ``record`` does."""
        tables: dict[TableName, Table] = {}
        databases: dict[str, Database] = {}
        unresolved: dict[TableName, Unresolved] = {}
        dropped: dict[TableName, HistoryPosition] = {}
        given: list[SchemaRecord] = []
        views: set[TableName] = set()
        for kind, name, value in items:
            if kind == "table":
                tables[self.definitions.name(name)] = self.definitions.table(*value)
            elif kind == "database":
                databases[name] = Database(charset=value[0], collation=value[1])
            elif kind == "unresolved":
                since, last = map(self.position, value[1:])
                state = Unresolved(reason=value[0], since=since, last=last)
                unresolved[self.definitions.name(name)] = state
            elif kind == "dropped":
                dropped[self.definitions.name(name)] = self.position(value)
            elif kind == "view":
                views.add(self.definitions.name(name))
            elif kind == "given":
                given.append(self.record(value))
            else:
                raise ValueError(f"a checkpoint holds {kind!r}")
        return SchemaCheckpoint(
            head=head,
            tables=tables,
            databases=databases,
            unresolved=unresolved,
            dropped=dropped,
            given=tuple(given),
            views=frozenset(views),
        )
