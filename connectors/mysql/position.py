"""Where we are in a source's binlog.

The law: positions print to text an operator can paste back, and compare by number: file 1000000 comes
after 999999, which no comparison of their names would say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList

Gtids = GtidSet | MariadbGtidList
"""What has been read, in the words of the one make of server or the other."""

_MARIADB = re.compile(r"\s*[0-9]+-[0-9]+-[0-9]+\s*(,|$)")


def parse_gtids(text: str) -> Gtids:
    """Read a set of MySQL's or a position of MariaDB's; raise ValueError where it is neither.

    The empty text is MySQL's empty set; whoever knows the server says which one it is.
    """
    return MariadbGtidList.parse(text) if _MARIADB.match(text) else GtidSet.parse(text)


@dataclass(frozen=True, slots=True, order=False)
class Coordinates:
    """A byte offset in a binlog file, as in ``binlog.000003:1543``."""

    file: str
    pos: int

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Read ``file:pos``; raise ValueError where it is not such."""
        file, colon, pos = text.rpartition(":")
        if not colon or not file or not pos.isdigit():
            raise ValueError(f"not binlog coordinates (file:pos): {text!r}")
        return cls(file, int(pos))

    @property
    def order(self) -> tuple[int, int]:
        """What to compare by: the file's number, then the offset."""
        number = self.file.rpartition(".")[2]
        return (int(number) if number.isdigit() else 0, self.pos)

    def __str__(self) -> str:
        return f"{self.file}:{self.pos}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """What has been read of one source: coordinates, and GTIDs where the server has them."""

    server_uuid: str
    coordinates: Coordinates
    gtid_set: Gtids | None = field(default=None)

    def __str__(self) -> str:
        return str(self.gtid_set) if self.gtid_set else str(self.coordinates)
