"""Positions in a source's binlog.

Invariant: positions print to text that an operator can paste back, and compare by number: file
1000000 comes after 999999, although its name sorts before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList

Gtids = GtidSet | MariadbGtidList
"""The transactions read so far: MySQL's GTID set or MariaDB's position."""

FIRST_EVENT = 4
"""The offset of the first event of a binlog file, after its magic number."""
_MARIADB = re.compile(r"\s*[0-9]+-[0-9]+-[0-9]+\s*(,|$)")


def parse_gtids(text: str) -> Gtids:
    """Parse a MySQL GTID set or a MariaDB position; raise ValueError for other text.

    Empty text gives MySQL's empty set; the caller knows which kind of server it is for.
    """
    return MariadbGtidList.parse(text) if _MARIADB.match(text) else GtidSet.parse(text)


@dataclass(frozen=True, slots=True, order=False)
class Coordinates:
    """A byte offset in a binlog file, as in ``binlog.000003:1543``."""

    file: str
    pos: int

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Parse ``file:pos``; raise ValueError for other text."""
        file, colon, pos = text.rpartition(":")
        if not colon or not file or not pos.isdigit():
            raise ValueError(f"not binlog coordinates (file:pos): {text!r}")
        return cls(file, int(pos))

    @property
    def order(self) -> tuple[int, int]:
        """The sort key: the file's number, then the offset."""
        number = self.file.rpartition(".")[2]
        return (int(number) if number.isdigit() else 0, self.pos)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """The position in one source: coordinates, and GTIDs if the server has them."""

    server_uuid: str
    coordinates: Coordinates
    gtid_set: Gtids | None = field(default=None)

    def __str__(self) -> str:
        return str(self.gtid_set) if self.gtid_set else str(self.coordinates)
