"""Binlog events as SHOW BINLOG EVENTS lists them, for files that the server would not send to a replica.

A server with gtid_mode=ON refuses to send a file that has transactions without GTIDs. It still lists
the file's events, without times and contents.

Invariant: listed events are used only to show that no transaction is after a position, or that a
known event exists.
"""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mysql.position import Coordinates
from connectors.mysql.server.facts import SourceAddress, connected

_OF_NO_TRANSACTION = {"Rotate", "Stop", "Format_desc", "Previous_gtids"}
_FEW = 4


@dataclass(frozen=True, slots=True)
class Listed:
    """An event: its type by the server's name, and its start and end in its file."""

    kind: str
    pos: int
    end: int


def listed(position: Coordinates, address: SourceAddress, *, most: int = _FEW) -> list[Listed]:
    """List up to ``most`` events of a file from a position; raise SourceRefused if none begins there."""
    with connected(address) as cursor:
        cursor.execute(
            f"SHOW BINLOG EVENTS IN %s FROM %s LIMIT {most:d}", (position.file, position.pos)
        )
        return [Listed(str(row[2]), int(row[1]), int(row[4])) for row in cursor.fetchall()]


def is_end(position: Coordinates, address: SourceAddress) -> bool:
    """Whether no transaction is after a position in its file."""
    return all(one.kind in _OF_NO_TRANSACTION for one in listed(position, address))
