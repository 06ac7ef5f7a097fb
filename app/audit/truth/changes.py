"""The source's changes as a witness reads them, each with its ChangeId of the wire contract.

Invariant: the rows of all tables in a transaction are numbered together from 0, as in docs/wire.md; rows of a
prepared XA transaction belong to the transaction of its XA COMMIT. Rows that are not captured are counted by
table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.audit.change_store import Store
from app.audit.table_shape import Shape
from app.audit.truth import printed_events as printed
from app.audit.truth.window import Side, Window
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates

_DDL = re.compile(
    r"(?:/\*.*?\*/|\s)*(CREATE|ALTER|DROP|RENAME|TRUNCATE)\b(.*)", re.DOTALL | re.IGNORECASE
)
_NO_TABLES = re.compile(
    r"\s+(?:OR\s+REPLACE\s+)?(USER|ROLE|SERVER|RESOURCE|LOGFILE|TABLESPACE|UNDO|INSTANCE|SPATIAL)\b",
    re.IGNORECASE,
)
_TRUNCATED = re.compile(
    r"\s*(?:TABLE\s+)?(?:`((?:[^`]|``)+)`|([\w$]+))(?:\s*\.\s*(?:`((?:[^`]|``)+)`|([\w$]+)))?",
    re.IGNORECASE,
)

_RENAMING = re.compile(r"\bRENAME\b(?!\s+(?:COLUMN|INDEX|KEY)\b)", re.IGNORECASE)
"""ALTER TABLE with a new name. A text or comment with the word only means that a record is not judged."""

Captures = Callable[[str, str], bool]


@dataclass(slots=True)
class Truth:
    """The source's changes within the window."""

    store: Store
    filtered: Counter[str] = field(default_factory=Counter)
    """Rows of tables that are not captured, by table."""
    before: GtidSet = field(default_factory=GtidSet)
    """Transactions before the window."""
    after: GtidSet = field(default_factory=GtidSet)
    """Transactions after the window, as far as the binlog was read."""
    within: GtidSet = field(default_factory=GtidSet)
    """Transactions within the window, with or without captured changes."""
    first: Coordinates | None = None
    """The beginning of the first transaction within the window."""
    last: Coordinates | None = None
    """The end of the last transaction within the window."""
    blurred: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By rank, transactions with rows that the witness cannot read: the first such ordinal, and its table."""
    unread: Counter[str] = field(default_factory=Counter)
    """Events with rows that the witness cannot read, by table and reason."""
    dropping: set[int] = field(default_factory=set)
    """Ranks of transactions that drop or rename tables, or drop databases; the rows that subscribers lose by
    that are not in the binlog."""
    undecided: set[str] = field(default_factory=set)
    """Transactions that committed XA rows from before the first file that was read."""

    def empties(self, rank: int, source: Mapping[str, Any]) -> bool:
        """Return whether a transaction may empty a table; a record's ``source`` need not name the table."""
        name = source.get("db"), source.get("table")
        emptied = {shape.name for _, shape in self.store.of(rank)}
        return rank in self.dropping or name in emptied or (name == (None, None) and bool(emptied))


def read(
    events: Iterable[printed.Event], window: Window, *, captures: Captures, store: Store
) -> Truth:
    """Fold a witness's events into a store."""
    reading = _Reading(window, captures, store)
    for event in events:
        if reading.take(event):
            break
    store.seal()
    return reading.truth


class _Reading:
    def __init__(self, window: Window, captures: Captures, store: Store) -> None:
        self.truth = Truth(store)
        self._window = window
        self._captures = captures
        self._store = store
        self._file = ""
        self._is_first_file = True
        self._side = Side.BEFORE
        self._name = ""
        self._pos = self._rank = self._ordinal = 0
        self._limit: int | None = None
        """The number of published rows of a transaction that is published in part."""
        self._xid: str | None = None
        self._open_xids: set[str] = set()
        self._xa_blurred: dict[str, tuple[int, str]] = {}
        """The same as ``Truth.blurred``, for XA transactions that are not decided yet."""
        self._savepoints: dict[str, int] = {}
        """The ordinal of the next row at each savepoint of the transaction."""
        self._sets = {
            Side.BEFORE: self.truth.before,
            Side.WITHIN: self.truth.within,
            Side.AFTER: self.truth.after,
        }

    def take(self, event: printed.Event) -> bool:
        """Add an event; return whether no further event is needed."""
        match event:
            case printed.Row():
                self._row(event)
            case printed.TransactionBegins():
                return self._begin(event)
            case printed.TransactionEnds():
                self._end(event)
            case printed.Statement():
                self._add_statement(event)
            case printed.SavepointSet():
                self._savepoints[event.name] = self._ordinal
            case printed.RowsUndone():
                self._undo(event.savepoint)
            case printed.XaBegins():
                self._xid = event.xid
                # Earlier rows under this xid, if any, were decided in a part of the binlog that is not visible
                # here.
                for _ in self._store.decide(event.xid, kept=False):
                    pass
                self._open_xids.discard(event.xid)
                self._xa_blurred.pop(event.xid, None)
            case printed.XaEnded():
                self._decide(event)
            case printed.UnreadableRows():
                self._blur(event)
            case printed.FileBegins():
                self._file = event.file
            case printed.Before():
                if self._is_first_file:
                    self.truth.before.merge(GtidSet.parse(event.gtids))
                self._is_first_file = False
        return False

    def _begin(self, event: printed.TransactionBegins) -> bool:
        window, at = self._window, Coordinates(self._file, event.pos)
        self._name = event.gtid or f"{window.server_uuid}:{at}"
        self._pos, self._ordinal, self._rank, self._xid = event.pos, 0, 0, None
        self._side = window.side(self._name, event.gtid, at, event.ts_ms)
        self._savepoints = {}
        self._limit = None
        if window.end.partial is not None and window.end.partial[0] == self._name:
            self._limit = window.end.partial[1]
        if self._side is Side.WITHIN:
            self.truth.first = self.truth.first or at
        if event.gtid is not None:
            self._sets[self._side].add(event.gtid)
        return self._side is Side.AFTER and window.may_stop(at)

    def _end(self, ended: printed.TransactionEnds) -> None:
        if self._side is Side.WITHIN:
            self.truth.last = Coordinates(self._file, ended.pos)
        self._xid = None

    def _row(self, row: printed.Row) -> None:
        ordinal = self._ordinal
        self._ordinal += 1
        if self._xid is not None:
            self._store.prepare(
                self._xid, ordinal, row.kind, row.shape, pos=row.pos, images=(row.before, row.after)
            )
            self._open_xids.add(self._xid)
        else:
            self._add(ordinal, row.kind, row.shape, row.pos, row.before, row.after)

    def _add(
        self, ordinal: int, kind: str, shape: Shape, pos: int, before: bytes, after: bytes
    ) -> None:
        if self._side is not Side.WITHIN or (self._limit is not None and ordinal >= self._limit):
            return
        if not self._captures(*shape.name):
            self.truth.filtered[".".join(shape.name)] += 1
            return
        self._store.add(
            self._transaction_rank(), ordinal, kind, shape, pos=pos, images=(before, after)
        )

    def _undo(self, savepoint: str | None) -> None:
        """Withdraw the rows since a savepoint, or all rows; later rows keep their ordinals."""
        since = self._savepoints.get(savepoint) if savepoint is not None else 0
        if since is not None and self._rank:
            self._store.withdraw(self._rank, since)

    def _transaction_rank(self) -> int:
        """The transaction's rank, assigned when it is first needed."""
        if not self._rank:
            self._rank = self._store.begin(self._name, self._file, self._pos)
        return self._rank

    def _add_statement(self, statement: printed.Statement) -> None:
        found = _DDL.match(statement.sql)
        if self._side is not Side.WITHIN or found is None or _NO_TABLES.match(found[2]):
            return
        self._store.add_statement(self._transaction_rank(), statement.sql, statement.pos)
        if found[1].upper() in ("DROP", "RENAME") or _RENAMING.search(found[2]):
            self.truth.dropping.add(self._transaction_rank())
        elif found[1].upper() == "TRUNCATE":
            name = _truncated(found[2], statement.database)
            if name is not None and self._captures(*name):
                shape = Shape(*name, (), None)
                self._store.add(
                    self._transaction_rank(),
                    self._ordinal,
                    "t",
                    shape,
                    pos=statement.pos,
                    images=(b"", b""),
                )

    def _decide(self, ended: printed.XaEnded) -> None:
        if ended.what == "PREPARE":
            return
        is_kept = ended.what == "COMMIT"
        if (
            is_kept
            and self._side is Side.WITHIN
            and ended.xid not in self._open_xids
            and self._xid is None
        ):
            self.truth.undecided.add(self._name)
        for ordinal, kind, shape, pos, before, after in self._store.decide(ended.xid, kept=is_kept):
            self._add(ordinal, kind, shape, pos, before, after)
        self._open_xids.discard(ended.xid)
        blurred = self._xa_blurred.pop(ended.xid, None)
        if is_kept and blurred is not None and self._side is Side.WITHIN:
            self.truth.blurred.setdefault(self._transaction_rank(), blurred)

    def _blur(self, rows: printed.UnreadableRows) -> None:
        table = ".".join(rows.shape.name)
        if self._side is Side.WITHIN:
            self.truth.unread[f"{table}: {rows.why}" if rows.why else table] += 1
        if self._xid is not None:
            self._xa_blurred.setdefault(self._xid, (self._ordinal, table))
            self._open_xids.add(self._xid)
        elif self._side is Side.WITHIN:
            self.truth.blurred.setdefault(self._transaction_rank(), (self._ordinal, table))


def _truncated(text: str, database: str | None) -> tuple[str, str] | None:
    found = _TRUNCATED.match(text)
    if found is None:
        return None
    first, second = (
        quoted.replace("``", "`") if quoted is not None else plain
        for quoted, plain in ((found[1], found[2]), (found[3], found[4]))
    )
    if second is not None:
        return first, second
    return None if database is None else (database, first)
