"""Whose the next transaction is, as the kinds of GTID events say it.

The law: a transaction without a GTID is named by its server and the place where it begins, and no other is.
"""

from __future__ import annotations

from typing import NamedTuple

from connectors.mysql.tagged import parse_gtid_tagged

Announced = tuple[int, str | None, int, str, int]
"""Of a transaction: where it begins, what its GTID begins with and its number, its id, and when it was
committed at its source, milliseconds since 1970, or 0 where that is not told."""


class Place(NamedTuple):
    """Of an event off the hot path: where it begins and ends, and what its header says."""

    file: str
    pos: int
    end_pos: int
    flags: int
    timestamp: int
    server_id: int


def tagged(body: bytes, place: Place) -> Announced:
    """A GTID_TAGGED event's transaction."""
    source, tag, number, committed = parse_gtid_tagged(body)
    source = f"{source}:{tag}" if tag else source
    return place.pos, source, number, f"{source}:{number}", committed // 1000


def without_gtid(told: Announced | None, place: Place, server_uuid: str) -> Announced:
    """An ANONYMOUS_GTID event's transaction; the event has the form of one with a GTID."""
    committed = told[4] if told is not None else 0
    return place.pos, None, 0, f"{server_uuid}:{place.file}:{place.pos}", committed


def by_mariadb(gtid: str, place: Place) -> Announced:
    """The transaction of a MariaDB's GTID event, ``domain-server-sequence``."""
    source, _, number = gtid.rpartition("-")
    if number == "0":
        raise ValueError(f"no GTID has the number 0: {gtid}")
    return place.pos, source, int(number), gtid, 0
