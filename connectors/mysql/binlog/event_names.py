"""The names of all event types, MySQL's and MariaDB's, and which of them carry no change.

The law: a type is decoded, harmless for a reason that is written down, or unsupported; there is no fourth case.
"""

from __future__ import annotations

from connectors.mysql.binlog import events
from connectors.mysql.binlog import mariadb_events as mariadb

_NAMES = {int(kind): kind.name for kind in events.EventType} | {
    # A name that both have is MySQL's.
    int(kind): kind.name
    if kind.name not in events.EventType.__members__
    else f"MARIADB_{kind.name}"
    for kind in mariadb.MariadbEventType
}

HARMLESS = {int(kind): why for kind, why in (*events.HARMLESS.items(), *mariadb.HARMLESS.items())}
"""Event types that carry no change of data, each with the reason."""


def is_known(kind: int) -> bool:
    """Whether an event's type is one that we name."""
    return kind in _NAMES


def type_name(kind: int) -> str:
    """The name of an event's type, else its number."""
    return _NAMES.get(kind, f"type {kind}")
