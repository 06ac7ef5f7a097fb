"""A server's binlog retention, and how long the files from a position on will remain.

Invariant: the server is queried rarely, over a separate short connection; a limit that the server
does not report counts as no limit.
Source: MySQL's manual, binlog_expire_logs_seconds; MariaDB's documentation, max_binlog_total_size;
Percona's, binlog_space_limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import Coordinates
from connectors.mysql.server.connection import SourceAddress, connected
from connectors.mysql.server.facts import binlog_files

_DAY = 86400.0
_VARIABLES = (
    "binlog_expire_logs_seconds",
    "binlog_expire_logs_auto_purge",
    "expire_logs_days",
    "max_binlog_total_size",
    "binlog_space_limit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """A server's binlog files and retention limits at one moment."""

    binlogs: tuple[tuple[str, int], ...]
    """Name and size of each file, oldest first."""
    seconds: float | None
    """Seconds from a file's end until the file may be purged; None: its age is no reason to purge it."""
    space: int | None
    """Total bytes above which the oldest files are purged; None: no such limit."""

    def holds(self, position: Coordinates) -> bool:
        """Whether the position's file exists."""
        return any(name == position.file for name, _ in self.binlogs)

    def is_end(self, position: Coordinates) -> bool:
        """Whether the position is at or past the end of the binlog."""
        name, size = self.binlogs[-1]
        return position.file == name and position.pos >= size

    def bytes_from(self, position: Coordinates) -> int:
        """Bytes from the head of the position's file to the end of the binlog."""
        names = [name for name, _ in self.binlogs]
        return sum(size for _, size in self.binlogs[names.index(position.file) :])

    def seconds_left(
        self, position: Coordinates, now: float, creation_time: Callable[[str], float]
    ) -> float:
        """Seconds until the position's file is old enough to be purged.

        ``creation_time`` returns a file's creation time. The last file can be purged only once another
        file follows it, at the earliest now.
        """
        if self.seconds is None:
            return math.inf
        names = [name for name, _ in self.binlogs]
        at = names.index(position.file)
        ended = now if at + 1 == len(names) else creation_time(names[at + 1])
        return max(0.0, ended + self.seconds - now)

    def space_left(self, position: Coordinates) -> float:
        """Bytes that may be written before the position's file is purged because of the space limit."""
        return math.inf if self.space is None else max(0, self.space - self.bytes_from(position))


def read_retention(address: SourceAddress) -> Retention:
    """Query the server; raise SourceLost or SourceRefused if it does not answer."""
    with connected(address) as cursor:
        wanted = ", ".join(["%s"] * len(_VARIABLES))
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({wanted})", _VARIABLES)
        variables = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
        binlogs = binlog_files(cursor)
    return Retention(binlogs=binlogs, seconds=age_limit(variables), space=space_limit(variables))


def age_limit(variables: dict[str, str]) -> float | None:
    """Seconds after which a file may be purged; binlog_expire_logs_seconds overrides expire_logs_days."""
    if variables.get("binlog_expire_logs_auto_purge", "ON").upper() in ("OFF", "0"):
        return None
    seconds = float(variables.get("binlog_expire_logs_seconds") or 0)
    return seconds or float(variables.get("expire_logs_days") or 0) * _DAY or None


def space_limit(variables: dict[str, str]) -> int | None:
    """Total bytes above which the oldest files are purged."""
    limits = [int(variables.get(name) or 0) for name in _VARIABLES[-2:]]
    return min((limit for limit in limits if limit), default=None)


def created_at(address: SourceAddress, file: str) -> float:
    """Creation time of a binlog file, seconds since 1970, from its first event."""
    return float(Spans(address, file).creation_time())
