"""Who says what the source had: MySQL's own mysqlbinlog, or mysql-replication.

The law: a witness reads by code that is not the worker's, says everything or raises TruthUnreadable, and says
what it cannot judge.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from enum import Enum
from typing import Protocol

from app.auditing.truth.printed_events import Event


class WitnessName(Enum):
    """Which there are; the values are the words of ``--witness``."""

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
"""What each cannot judge, for the report."""


class Witness(Protocol):
    """Where the truth is read."""

    @property
    def name(self) -> WitnessName:
        """Which it is."""

    @property
    def server_uuid(self) -> str:
        """Whose binlog it is."""

    def files(self) -> Sequence[str]:
        """Names of all binlog files that there are, the oldest first."""

    def events(self, first: str) -> Generator[Event]:
        """What stands in this file and all behind it; closing it ends the reading."""
