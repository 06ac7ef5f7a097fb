"""The witness of the source's changes: MySQL's own mysqlbinlog, or mysql-replication.

Invariant: a witness reads with code that is not the worker's, reports everything or raises TruthUnreadable, and
names what it cannot judge.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from enum import Enum
from typing import Protocol

from app.audit.truth.printed_events import Event


class WitnessName(Enum):
    """The known witnesses; the values are those of ``--witness``."""

    MYSQLBINLOG = "mysqlbinlog"
    MYSQL_REPLICATION = "mysql-replication"


LIMITS = {
    WitnessName.MYSQLBINLOG: "rows with GEOMETRY or VECTOR, and those after them in a transaction",
    WitnessName.MYSQL_REPLICATION: (
        "values of GEOMETRY, zero and partial dates, negative TIME with a fraction, JSON that holds dates, "
        "decimals or binary text, and rows with VECTOR or a DATE that is no day; it stops at compressed "
        "transactions, tagged GTIDs, and tables whose columns the binlog does not name"
    ),
}
"""What each witness cannot judge, for the report."""


class Witness(Protocol):
    """A reader of the source's binlog."""

    @property
    def name(self) -> WitnessName:
        """The witness's name."""

    @property
    def server_uuid(self) -> str:
        """The server of the binlog."""

    def files(self) -> Sequence[str]:
        """The names of all existing binlog files, the oldest first."""

    def events(self, first: str) -> Generator[Event]:
        """Yield the events of this file and all later files; closing the generator ends the reading."""
