"""The start of a connector's destination: at the connector's offset, or with or without existing rows.

Format of an offset: the value in Connect's offset topic, with or without its key, or the answer of `GET
/connectors/NAME/offsets`. `file` and `pos` give the beginning of the present transaction, `gtids` the complete
transactions, `event` and `row` the part of the present transaction that is already published.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.migrate.debezium.connector import Connector
from app.migrate.draft import Draft, Entry
from app.migrate.yaml_text import YamlPath
from connectors.errors import UsageError

_REMEDY = "Save the answer of GET /connectors/NAME/offsets, or the value in the topic of offsets"
_ONLY_NEW = ("no_data", "schema_only")
_WITH_ROWS = {
    "initial": "initial", "initial_only": "initial_only", "when_needed": "when_needed", "always": "initial",
}  # fmt: skip
"""The ``snapshot.mode`` of a destination, by the mode of a connector that begins with existing rows."""
_RECOVERS = ("recovery", "schema_only_recovery")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A position of Debezium."""

    file: str
    position: int
    gtid_set: str
    within: bool
    """Whether a part of the transaction at the position is published."""
    events: int
    """Complete events of that transaction, from BEGIN on."""
    rows: int
    """Published rows of the next event."""
    in_snapshot: bool
    """Whether the snapshot had not ended."""


def read_offset(path: Path) -> Offset:
    """Read an offset; raise UsageError if a file has no offset, or offsets of several sources."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    try:
        return _offset(_value(text, path))
    except (ValueError, TypeError, KeyError, IndexError):
        raise UsageError(f"{path} is no offset of Debezium", remedy=_REMEDY) from None


def _value(text: str, path: Path) -> dict[str, Any]:
    """The object with the position; from the last line, if a consumer printed lines with key and value."""
    if "\t" in text:
        text = text.strip().splitlines()[-1].rpartition("\t")[2]
    found = orjson.loads(text)
    if len(found.get("offsets", ())) > 1:
        remedy = "Keep only the connector's own"
        raise UsageError(f"{path} has offsets of several sources", remedy=remedy)
    value: dict[str, Any] = found["offsets"][0] if "offsets" in found else found
    return dict(value.get("offset", value))


def _offset(found: dict[str, Any]) -> Offset:
    return Offset(
        file=str(found["file"]),
        position=int(found["pos"]),
        gtid_set="".join(str(found.get("gtids") or "").split()),
        events=int(found.get("event") or 0),
        rows=int(found.get("row") or 0),
        within=bool(found.get("event") or found.get("row")),
        in_snapshot=str(found.get("snapshot") or "false").lower() != "false",
    )


def convert_offset(draft: Draft, path: YamlPath, offset: Offset, file: Path) -> None:
    """Put the position of an offset; if it is within a transaction without GTIDs, the whole file."""
    entry = Entry(key="offset", value="", file=file.name)
    start = (*path, "start")
    if offset.gtid_set:
        draft.take(entry, (*start, "gtid_set"), offset.gtid_set)
    else:
        draft.take(entry, (*start, "file"), offset.file)
        if not offset.within:
            draft.take(entry, (*start, "pos"), offset.position)
    draft.by_hand(entry, "stop the connector before its offset is read")
    if (
        offset.within
        and offset.gtid_set
        and "-" in offset.gtid_set.partition(":")[0]
        and offset.events
    ):
        draft.take(entry, (*start, "within", "events"), offset.events)
        draft.take(entry, (*start, "within", "rows"), offset.rows)
    elif offset.within:
        begin = "that transaction" if offset.gtid_set else f"all of {offset.file}"
        text = f"a part of a transaction is published already; {begin} is published again"
        draft.by_hand(entry, text)
    if offset.in_snapshot:
        name = path[-1]
        draft.by_hand(
            entry,
            f"the snapshot had not ended: run `python -m app snapshot start {name} --all` once the worker runs",
        )


def convert_snapshots(draft: Draft, path: YamlPath, connector: Connector, *, resumes: bool) -> None:
    """Put which existing rows are read; ``resumes`` is whether changes continue at an offset."""
    signals = connector.get("signal.data.collection")
    if signals:
        # The name of the database comes first; in some versions, the name of the server precedes it.
        table = ".".join(signals.value.split(".")[-2:])
        draft.take(signals, (*path, "snapshot", "signal_table"), table)
        draft.by_hand(signals, f"{table} has to be a captured table; its rows are published too")
    mode = connector.get("snapshot.mode")
    value = mode.value.lower() if mode else "initial"
    if mode and value in _RECOVERS:
        _recover(draft, path, mode, resumes=resumes)
    elif not resumes:
        _begin(draft, path, mode, value)
    elif mode and value == "when_needed":
        # With an offset the first start reads no rows.
        text = "set snapshot.mode to when_needed, and leave out start, once the worker has run"
        draft.by_hand(mode, text)


def _recover(draft: Draft, path: YamlPath, mode: Entry, *, resumes: bool) -> None:
    """Put that the schema history begins at the offset; ``resumes`` is whether an offset is given."""
    draft.take(mode, (*path, "snapshot", "mode"), "recovery")
    if resumes:
        draft.by_hand(mode, "set snapshot.mode to never once the worker has run")
    else:
        text = "give --offsets: it continues at a stored position, and without one the worker refuses to begin"
        draft.by_hand(mode, text)


def _begin(draft: Draft, path: YamlPath, mode: Entry | None, value: str) -> None:
    """Put the beginning of a connector without an offset."""
    start, rows = (*path, "start"), (*path, "snapshot", "mode")
    if mode and value in _ONLY_NEW:
        draft.take(mode, start, "latest")
        draft.by_hand(mode, "give --offsets, or changes since the connector was stopped are lost")
    elif mode and value == "never":
        draft.take(mode, start, "earliest")
    elif value in _WITH_ROWS:
        reason = (
            "all existing rows are published again; give --offsets to resume after the connector"
        )
        if mode:
            draft.take(mode, rows, _WITH_ROWS[value])
            draft.by_hand(mode, reason)
        else:
            draft.choose(rows, _WITH_ROWS[value], reason)
    else:
        reason = f"rows before the oldest change in the binlog are not read (snapshot.mode {value})"
        draft.choose(start, "earliest", f"{reason}; give --offsets to resume after the connector")
