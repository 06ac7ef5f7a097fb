"""How long a server keeps its binlog, and how long the files from a place on will still be there.

The law: asked over a short connection of its own, and rarely; what the server does not say is not guessed: a
limit that it does not tell is none here.
Source: MySQL's manual, binlog_expire_logs_seconds; MariaDB's documentation, max_binlog_total_size; Percona's,
binlog_space_limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from connectors.mysql.lookup.transaction_spans import Spans
from connectors.mysql.position import Coordinates
from connectors.mysql.server.facts import SourceAddress, binlog_files, connected

_DAY = 86400.0
_VARIABLES = (
    "binlog_expire_logs_seconds",
    "binlog_expire_logs_auto_purge",
    "expire_logs_days",
    "max_binlog_total_size",
    "binlog_space_limit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a server keeps, at one moment."""

    binlogs: tuple[tuple[str, int], ...]
    """Name and size of each file, oldest first."""
    seconds: float | None
    """How long after its end a file may be purged; None: never for its age."""
    space: int | None
    """Bytes above which the oldest files are purged; None: no such limit."""

    def holds(self, place: Coordinates) -> bool:
        """Whether the file of a place is there."""
        return any(name == place.file for name, _ in self.binlogs)

    def is_end(self, place: Coordinates) -> bool:
        """Whether nothing stands behind a place."""
        name, size = self.binlogs[-1]
        return place.file == name and place.pos >= size

    def behind(self, place: Coordinates) -> int:
        """Bytes from the head of a place's file to the end."""
        names = [name for name, _ in self.binlogs]
        return sum(size for _, size in self.binlogs[names.index(place.file) :])

    def seconds_left(self, place: Coordinates, now: float, begun: Callable[[str], float]) -> float:
        """Until the file of a place is old enough to be purged; ``begun`` tells when a file was begun.

        The last file is purged only once another follows it, which at the earliest is now.
        """
        if self.seconds is None:
            return math.inf
        names = [name for name, _ in self.binlogs]
        at = names.index(place.file)
        ended = now if at + 1 == len(names) else begun(names[at + 1])
        return max(0.0, ended + self.seconds - now)

    def space_left(self, place: Coordinates) -> float:
        """Bytes that may be written before the file of a place is purged for its place."""
        return math.inf if self.space is None else max(0, self.space - self.behind(place))


def read_kept(address: SourceAddress) -> Kept:
    """Ask the server; raise SourceLost or SourceRefused where it does not answer."""
    with connected(address) as cursor:
        wanted = ", ".join(["%s"] * len(_VARIABLES))
        cursor.execute(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({wanted})", _VARIABLES)
        variables = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
        binlogs = binlog_files(cursor)
    return Kept(binlogs=binlogs, seconds=age_limit(variables), space=space_limit(variables))


def age_limit(variables: dict[str, str]) -> float | None:
    """Seconds after which a file may be purged; the newer variable counts where both are set."""
    if variables.get("binlog_expire_logs_auto_purge", "ON").upper() in ("OFF", "0"):
        return None
    seconds = float(variables.get("binlog_expire_logs_seconds") or 0)
    return seconds or float(variables.get("expire_logs_days") or 0) * _DAY or None


def space_limit(variables: dict[str, str]) -> int | None:
    """Bytes of all files above which the oldest go."""
    limits = [int(variables.get(name) or 0) for name in _VARIABLES[-2:]]
    return min((limit for limit in limits if limit), default=None)


def begun_at(address: SourceAddress, file: str) -> float:
    """When a binlog file was begun, seconds since 1970, as its first event says."""
    return float(Spans(address, file).begun())
