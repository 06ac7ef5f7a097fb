"""The start of a destination from Canal: the cursor that Canal has stored, or the configured position.

Invariant: a start never skips a change that a client of Canal has not acknowledged; it may repeat changes.
Canal's offset is the offset of the last acknowledged event, which may be within a transaction.
"""

from __future__ import annotations

from app.migrate.canal.configuration import Instance
from app.migrate.canal.configuration_keys import ADDRESS, Keys
from app.migrate.canal.cursors import Cursor
from app.migrate.canal.instance import address
from app.migrate.draft import Draft
from app.migrate.findings import Entry
from app.migrate.yaml_text import YamlPath

_FIRST = 4
_REPEATED = (
    "stop Canal before this file is read; changes of the second before {position} are published "
    "again, so subscribers must accept repeated changes"
)
_STOPPED = (
    "stop Canal before this file is read. What it had sent and not noted in this file is published again, as "
    "Canal would have done itself"
)
_GTIDS = (
    "stop Canal before this file is read. Canal before 1.1.3 may have counted a transaction of which "
    "clients got only a part: then start from {fallback} instead"
)


def convert_start(draft: Draft, path: YamlPath, instance: Instance) -> None:
    """Put the destination's start; without a position, it is the end of the binlog, as in Canal."""
    if instance.cursors and not instance.number:
        _from_cursor(draft, path, instance)
        return
    if instance.cursors:
        text = (
            f"{instance.cursor_file} has no position for each member of a group; set start by hand"
        )
        draft.note(".".join(map(str, path)), text)
    for role in ("master", "standby"):
        if role == "master" or instance.keys.get("canal.instance.standby.address"):
            at = path if role == "master" else (*path, "sources", 1)
            _configured(draft, (*at, "start"), instance.keys, f"canal.instance.{role}.")


def _configured(draft: Draft, path: YamlPath, keys: Keys, prefix: str) -> None:
    """Put the position in the properties: GTIDs, a file with offset or time, or a time."""
    gtid, file = keys.get(f"{prefix}gtid"), keys.get(f"{prefix}journal.name")
    offset, time = keys.get(f"{prefix}position"), keys.get(f"{prefix}timestamp")
    if gtid and keys.is_true("canal.instance.gtidon", default=True):
        draft.take(gtid, (*path, "gtid_set"), gtid.value)
        return
    if file:
        draft.take(file, (*path, "file"), file.value)
    if file and offset and offset.value.isdecimal() and int(offset.value) > _FIRST:
        draft.take(offset, (*path, "pos"), int(offset.value))
    elif time and time.value.isdecimal() and int(time.value):
        draft.take(time, (*path, "timestamp"), int(time.value))


def _from_cursor(draft: Draft, path: YamlPath, instance: Instance) -> None:
    cursor = min(instance.cursors, key=lambda one: one.age)
    entry = Entry(key=_label(cursor), value="", file=instance.cursor_file)
    if cursor.gtid_set and instance.keys.is_true("canal.instance.gtidon"):
        draft.take(entry, (*path, "start", "gtid_set"), cursor.gtid_set)
        fallback = f"{{file: {cursor.file}, timestamp: {cursor.timestamp}}}"
        draft.by_hand(entry, _GTIDS.format(fallback=fallback))
        return
    role = _server(cursor, instance.keys)
    if role is None:
        _at_time(draft, (*path, "start"), entry, cursor, instance.keys)
    elif role == "standby":
        _in_file(draft, (*path, "sources", 1, "start"), entry, cursor)
        _at_time(draft, (*path, "start"), entry, cursor, instance.keys)
    else:
        _in_file(draft, (*path, "start"), entry, cursor)
    if role == "master" and cursor.position > _FIRST:
        draft.by_hand(entry, _STOPPED)
    else:
        draft.by_hand(entry, _REPEATED.format(position=f"{cursor.file}:{cursor.position}"))


def _server(cursor: Cursor, keys: Keys) -> str | None:
    """The role of the server to which a cursor's file belongs; None if it is neither server."""
    for role, name in (("master", ADDRESS), ("standby", "canal.instance.standby.address")):
        host, port = address(keys.text(name))
        if (_one_name(host), port) == (_one_name(cursor.host), cursor.port):
            return role
    return None


def _one_name(host: str) -> str:
    """One name for the machine itself, which Java may name in several ways."""
    return "localhost" if host in ("127.0.0.1", "::1") else host


def _in_file(draft: Draft, path: YamlPath, entry: Entry, cursor: Cursor) -> None:
    """Put the file and the event of the last change; without an offset, its time, or else the whole file."""
    draft.take(entry, (*path, "file"), cursor.file)
    if cursor.position > _FIRST:
        draft.take(entry, (*path, "event"), cursor.position)
    elif cursor.timestamp:
        draft.take(entry, (*path, "timestamp"), cursor.timestamp)


def _at_time(draft: Draft, path: YamlPath, entry: Entry, cursor: Cursor, keys: Keys) -> None:
    """Put a time before the last change, as Canal does on another server than its cursor's."""
    fallback = keys.text("canal.instance.fallbackIntervalInSeconds", "60")
    seconds = int(fallback) if fallback.isdecimal() else 60
    draft.take(entry, (*path, "timestamp"), cursor.timestamp - 1000 * seconds)
    draft.by_hand(
        entry,
        f"the cursor is of {cursor.host}:{cursor.port}, another address than the first source's, so "
        f"the start is {seconds} s earlier by time",
    )


def _label(cursor: Cursor) -> str:
    return f"cursor of client {cursor.client}" if cursor.client else "position of Canal's parser"
