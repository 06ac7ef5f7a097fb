"""Names of all event types, MySQL's and MariaDB's, and the types that carry no change.

Invariant: a type is decoded, harmless for a documented reason, or unsupported; there is no fourth
case.
"""

from __future__ import annotations

from connectors.mysql.binlog import events
from connectors.mysql.binlog import mariadb_events as mariadb

_NAMES = {int(kind): kind.name for kind in events.EventType} | {
    # If both servers define a name, MariaDB's event type gets a prefix.
    int(kind): kind.name
    if kind.name not in events.EventType.__members__
    else f"MARIADB_{kind.name}"
    for kind in mariadb.MariadbEventType
}

HARMLESS = {int(kind): why for kind, why in (*events.HARMLESS.items(), *mariadb.HARMLESS.items())}
"""Event types that carry no data change, each with the reason."""


def is_known(kind: int) -> bool:
    """Whether an event's type has a name here."""
    return kind in _NAMES


def type_name(kind: int) -> str:
    """The name of an event's type, or its number if it has none."""
    return _NAMES.get(kind, f"type {kind}")
