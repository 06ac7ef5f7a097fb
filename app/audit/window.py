"""The window of an audit in the source, and the side of it that a transaction is on.

Invariant: a position is compared by GTID sets if there are GTIDs, by file and offset of one server
otherwise, by the commit's time on request; never by two of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates

Bound = GtidSet | Coordinates | str | int
"""A set of GTIDs; coordinates; one transaction by its name; a time in milliseconds since 1970."""


class Side(Enum):
    """The side of a window that a transaction is on."""

    BEFORE = "before"
    WITHIN = "within"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of the published part, from the journal's cursor."""

    server_uuid: str
    coordinates: Coordinates
    gtids: GtidSet | None
    partial: tuple[str, int] | None = None
    """A transaction that is published in part, and the number of its published rows."""


@dataclass(slots=True, kw_only=True)
class Window:
    """Judges transactions in the order of the binlog: a bound by name is passed once."""

    begin: Bound | None
    """Transactions in this set, or before this position, are not audited; None: from the first file on."""
    until: Bound | None
    """Later transactions are not audited, if less than the cursor's position is wanted."""
    end: End
    server_uuid: str
    """The server of the binlog."""
    last_of_set: Coordinates | None = None
    """Of a set to begin after: its last transaction, if found. Transactions without GTIDs are
    before the window up to it, and in the window from there on."""
    _has_begun: bool = False
    _is_over: bool = False

    def side(self, name: str, gtid: str | None, at: Coordinates, ts_ms: int) -> Side:
        """Return the side of a transaction that begins there."""
        if not self._begins(name, gtid, at, ts_ms):
            return Side.BEFORE
        if self._is_after(name, gtid, at, ts_ms):
            return Side.AFTER
        return Side.WITHIN

    def may_stop(self, at: Coordinates) -> bool:
        """Return whether nothing after these coordinates can be within."""
        end = self.end
        return (
            end.server_uuid == self.server_uuid
            and at.order >= end.coordinates.order
            and not end.partial
        )

    def _begins(self, name: str, gtid: str | None, at: Coordinates, ts_ms: int) -> bool:
        match self.begin:
            case GtidSet():
                if gtid is None:
                    return self.last_of_set is None or at.order > self.last_of_set.order
                return gtid not in self.begin
            case Coordinates():
                return at.order >= self.begin.order
            case str():
                self._has_begun = self._has_begun or name == self.begin
                return self._has_begun
            case int():
                return ts_ms >= self.begin
        return True

    def _is_after(self, name: str, gtid: str | None, at: Coordinates, ts_ms: int) -> bool:
        is_after = False
        match self.until:
            case GtidSet():
                is_after = gtid is not None and gtid not in self.until
            case Coordinates():
                is_after = at.order >= self.until.order
            case str():
                is_after = self._is_over
                self._is_over = self._is_over or name == self.until
            case int():
                is_after = ts_ms > self.until
        return is_after or not self._is_published(name, gtid, at)

    def _is_published(self, name: str, gtid: str | None, at: Coordinates) -> bool:
        end = self.end
        if end.partial is not None and end.partial[0] == name:
            return True
        if gtid is not None and end.gtids is not None:
            return gtid in end.gtids
        if end.server_uuid != self.server_uuid:
            return True  # a server without GTIDs that is read no more: everything requested is read
        return at.order < end.coordinates.order
