"""The routes by which each record was published, across all versions of the mapping.

Invariant: a record is judged by the version that was in force for its number; a change without a record is
judged by the version in force at its transaction. The journal gives the boundaries between versions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.audit.change_store import Store, Transaction
from connectors.errors import MappingError
from connectors.mysql.gtid import GtidSet
from connectors.mysql.mariadb_gtid import MariadbGtidList
from connectors.mysql.position import Coordinates, Gtids, parse_gtids
from tables.rules.routes.routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of a destination's records, published by one version of the mapping."""

    routes: Routes | MappingError
    """The routes, or the reason why the version can no longer be read."""
    seq: int = 0
    """The last number before the stretch."""
    position: str = ""
    """The position of the source at which the stretch begins, as the journal stores it."""


class RoutesInForce:
    """The routes of a destination over all its records."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        """``stretches`` are one or more, in order. The first also covers all earlier records."""
        self._all = tuple(stretches)
        self._numbers = [one.seq for one in self._all[1:]]
        self._begins = [_bound(one.position) for one in self._all]

    @classmethod
    def always(cls, routes: Routes) -> RoutesInForce:
        """Return the same routes for all records."""
        return cls([Stretch(routes=routes)])

    def of_number(self, seq: int) -> Routes:
        """Return the routes of a record; raise MappingError if its version cannot be read."""
        return _usable(self._all[bisect_left(self._numbers, seq)])

    def of_transaction(self, store: Store, rank: int) -> Routes:
        """Return the routes of a transaction's changes; raise MappingError if their version cannot be read."""
        return _usable(self._all[self._index(store, rank)])

    def since(self, store: Store, rank: int) -> Iterator[Routes]:
        """Yield the routes by which a transaction's quarantined changes may have been published."""
        yield from map(_usable, self._all[self._index(store, rank) :])

    def captures(self, database: str, table: str) -> bool:
        """Return whether rows of a table were ever published."""
        return any(routes.captures(database, table) for routes in self._readable())

    @property
    def omitted_statements(self) -> frozenset[str]:
        """The verbs of statements that any version omits for any table."""
        return frozenset().union(*(one.omitted_statements for one in self._readable()))

    def _readable(self) -> Iterator[Routes]:
        for one in self._all:
            if isinstance(one.routes, Routes):
                yield one.routes

    def _index(self, store: Store, rank: int) -> int:
        """The index of the last stretch that begins before a transaction; 0 if there is none."""
        if len(self._all) == 1:
            return 0
        transaction = store.ranked(rank)
        for index in range(len(self._all) - 1, 0, -1):
            if _follows(transaction, self._begins[index]):
                return index
        return 0


def _usable(stretch: Stretch) -> Routes:
    if isinstance(stretch.routes, MappingError):
        raise stretch.routes
    return stretch.routes


def _bound(position: str) -> Gtids | Coordinates | None:
    """The position in a text that ``SourceOffset`` printed: its GTIDs if it has any, else its coordinates."""
    if not position:
        return None
    try:
        return parse_gtids(position)
    except ValueError:
        return Coordinates.parse(position)


def _follows(transaction: Transaction, bound: Gtids | Coordinates | None) -> bool:
    """Whether a transaction is after a position."""
    if isinstance(bound, GtidSet):
        # A transaction without a GTID is named by its position. It precedes the bound, since the server has
        # GTIDs by now.
        is_position = transaction.id.endswith(f":{transaction.file}:{transaction.pos}")
        return not is_position and transaction.id not in bound
    if isinstance(bound, MariadbGtidList):
        return not bound.holds(transaction.id)
    at = Coordinates(transaction.file, transaction.pos)
    return bound is not None and at.order >= bound.order
