"""A binlog position in an operator's form: a GTID, a set of them, file:pos, or a time.

Invariant: nothing is guessed: a time without a zone is UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from connectors.mysql.position import Coordinates, Gtids, SourceOffset, parse_gtids
from tables.history.position import AtGtid, AtTime, PositionQuery

_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_ONE_GTID = re.compile(rf"{_UUID}(:[a-z_]\w*)?:\d+")
_GTIDS = re.compile(rf"{_UUID}:|\d+-\d+-\d+(,|$)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ].+)?")


@dataclass(frozen=True, slots=True)
class GivenPosition:
    """A position as given; the history supplies the server of file and offset."""

    value: Coordinates | Gtids | str | int
    """A set of GTIDs; one GTID as text; a time in milliseconds."""

    @classmethod
    def parse(cls, text: str) -> GivenPosition:
        """Parse a position; raise ValueError if it is none."""
        text = text.strip()
        if _TIME.fullmatch(text):
            return cls(_milliseconds(text))
        if _ONE_GTID.fullmatch(text):
            return cls(text)
        if _GTIDS.match(text):
            # A single GTID of MariaDB is a position as well: all of its domain up to it.
            return cls(parse_gtids(text))
        return cls(Coordinates.parse(text))

    def history_query(self, server_uuid: str, coordinates: Coordinates) -> PositionQuery:
        """Return the query for a history of this server, which was read up to these coordinates."""
        match self.value:
            case Coordinates():
                return SourceOffset(server_uuid=server_uuid, coordinates=self.value)
            case str():
                return AtGtid(self.value)
            case int():
                return AtTime(self.value)
        return SourceOffset(server_uuid=server_uuid, coordinates=coordinates, gtid_set=self.value)


def _milliseconds(text: str) -> int:
    found = datetime.fromisoformat(text)
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
