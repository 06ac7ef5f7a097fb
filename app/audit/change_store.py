"""The source's changes, kept in an SQLite file between the two halves of an audit to bound memory.

Invariant: memory holds one byte for each change, and the tables' shapes; all else is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

from app.audit.table_shape import Shape
from connectors.scratch_file import scratch

_BATCH = 5000
_TABLES = """
CREATE TABLE tx (rank INTEGER PRIMARY KEY, id TEXT NOT NULL, file TEXT NOT NULL, pos INTEGER NOT NULL);
CREATE TABLE change (place INTEGER PRIMARY KEY, n INTEGER NOT NULL, kind TEXT NOT NULL, shape INTEGER NOT NULL,
  pos INTEGER NOT NULL, before BLOB NOT NULL, after BLOB NOT NULL);
CREATE TABLE statement (rank INTEGER PRIMARY KEY, text TEXT NOT NULL, pos INTEGER NOT NULL);
CREATE TABLE prepared (xid TEXT NOT NULL, ordinal INTEGER NOT NULL, kind TEXT NOT NULL, shape INTEGER NOT NULL,
  pos INTEGER NOT NULL, before BLOB NOT NULL, after BLOB NOT NULL, PRIMARY KEY (xid, ordinal)) WITHOUT ROWID;
"""
ORDINAL_BITS = 32
_ORDINALS = (1 << ORDINAL_BITS) - 1


class Transaction(NamedTuple):
    """A transaction of the source, with its rank in the order of the binlog."""

    rank: int
    id: str
    file: str
    pos: int


class Change(NamedTuple):
    """A change of a row of a captured table."""

    position: int
    """The transaction's rank and the row's ordinal in one number, which is greater for later changes."""
    n: int
    """The index among all changes, from 0."""
    kind: str
    """``c``, ``u``, ``d``; ``t`` for a truncated table."""
    shape: Shape
    pos: int
    before: bytes
    after: bytes

    @property
    def rank(self) -> int:
        """The rank of its transaction."""
        return self.position >> ORDINAL_BITS

    @property
    def ordinal(self) -> int:
        """The ordinal of the row in its transaction."""
        return self.position & _ORDINALS


class Store:
    """The changes: written once from the beginning to the end, then queried."""

    def __init__(self) -> None:
        self._db = scratch(_TABLES)
        self._shapes: list[Shape] = []
        self._numbers: dict[int, int] = {}
        self._waiting: list[tuple[int, int, str, int, int, bytes, bytes]] = []
        self._rank = 0
        self.changes = 0
        self._last: Transaction | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def begin(self, name: str, file: str, pos: int) -> int:
        """Begin a transaction; return its rank."""
        self._rank += 1
        self._db.execute("INSERT INTO tx VALUES (?, ?, ?, ?)", (self._rank, name, file, pos))
        return self._rank

    def add(
        self,
        rank: int,
        ordinal: int,
        kind: str,
        shape: Shape,
        *,
        pos: int,
        images: tuple[bytes, bytes],
    ) -> None:
        """Add a change of the last transaction."""
        position = rank << ORDINAL_BITS | ordinal
        self._waiting.append((position, self.changes, kind, self._number(shape), pos, *images))
        self.changes += 1
        if len(self._waiting) >= _BATCH:
            self.flush()

    def withdraw(self, rank: int, ordinal: int) -> None:
        """Remove changes of the last transaction, from this ordinal on."""
        self.flush()
        first = rank << ORDINAL_BITS | ordinal
        self.changes -= self._db.execute("DELETE FROM change WHERE place >= ?", (first,)).rowcount

    def flush(self) -> None:
        """Write buffered changes."""
        if self._waiting:
            self._db.execute("BEGIN")
            self._db.executemany("INSERT INTO change VALUES (?, ?, ?, ?, ?, ?, ?)", self._waiting)
            self._db.execute("COMMIT")
            self._waiting.clear()

    def add_statement(self, rank: int, text: str, pos: int) -> None:
        """Add a statement of a transaction."""
        self._db.execute("INSERT OR REPLACE INTO statement VALUES (?, ?, ?)", (rank, text, pos))

    def prepare(
        self,
        xid: str,
        ordinal: int,
        kind: str,
        shape: Shape,
        *,
        pos: int,
        images: tuple[bytes, bytes],
    ) -> None:
        """Add a change that is valid only once its XA transaction is committed."""
        row = (xid, ordinal, kind, self._number(shape), pos, *images)
        self._db.execute("INSERT INTO prepared VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def decide(
        self, xid: str, *, kept: bool
    ) -> Iterator[tuple[int, str, Shape, int, bytes, bytes]]:
        """Remove an XA transaction's changes.

        With ``kept``, yield the ordinal, kind, table, offset and images of each.
        """
        if kept:
            query = "SELECT * FROM prepared WHERE xid = ? ORDER BY ordinal"
            for _, ordinal, kind, shape, pos, before, after in self._db.execute(query, (xid,)):
                yield ordinal, kind, self._shapes[shape], pos, before, after
        self._db.execute("DELETE FROM prepared WHERE xid = ?", (xid,))

    def seal(self) -> None:
        """End the writing; build the indexes."""
        self.flush()
        self._db.execute("CREATE INDEX tx_id ON tx (id)")

    def transaction(self, name: str) -> Transaction | None:
        """Return a transaction by name. Records of one transaction are adjacent, so the last answer
        is cached."""
        if self._last is not None and self._last.id == name:
            return self._last
        found = self._db.execute("SELECT * FROM tx WHERE id = ?", (name,)).fetchone()
        if found is None:
            return None
        self._last = Transaction(*found)
        return self._last

    def ranked(self, rank: int) -> Transaction:
        """Return a transaction by rank."""
        return Transaction(*self._db.execute("SELECT * FROM tx WHERE rank = ?", (rank,)).fetchone())

    def change(self, rank: int, ordinal: int) -> Change | None:
        """Return a change by its transaction and ordinal."""
        position = rank << ORDINAL_BITS | ordinal
        found = self._db.execute("SELECT * FROM change WHERE place = ?", (position,)).fetchone()
        return None if found is None else self._change(found)

    def statement(self, rank: int) -> tuple[str, int] | None:
        """Return the statement of a transaction, and its offset."""
        query = "SELECT text, pos FROM statement WHERE rank = ?"
        found: tuple[str, int] | None = self._db.execute(query, (rank,)).fetchone()
        return found

    def statements(self) -> Iterator[tuple[int, str, int]]:
        """Yield rank, text and offset of all statements."""
        yield from self._db.execute("SELECT * FROM statement ORDER BY rank")

    def all(self) -> Iterator[Change]:
        """Yield all changes in their order."""
        for found in self._db.execute("SELECT * FROM change ORDER BY place"):
            yield self._change(found)

    @property
    def shapes(self) -> Sequence[Shape]:
        """Return the shapes of all tables with changes."""
        return self._shapes

    def positions(self) -> Iterator[tuple[int, int, Shape]]:
        """Yield position, number and table of all changes, without their values."""
        for position, n, shape in self._db.execute(
            "SELECT place, n, shape FROM change ORDER BY place"
        ):
            yield position, n, self._shapes[shape]

    def of(self, rank: int) -> Iterator[tuple[int, Shape]]:
        """Yield number and table of each change of a transaction."""
        first, last = rank << ORDINAL_BITS, (rank + 1) << ORDINAL_BITS
        query = "SELECT n, shape FROM change WHERE place >= ? AND place < ?"
        for n, shape in self._db.execute(query, (first, last)):
            yield n, self._shapes[shape]

    def _change(self, found: tuple[int, int, str, int, int, bytes, bytes]) -> Change:
        position, n, kind, shape, pos, before, after = found
        return Change(position, n, kind, self._shapes[shape], pos, before, after)

    def _number(self, shape: Shape) -> int:
        number = self._numbers.get(id(shape))
        if number is None:
            # A reference to the shape is kept, so that its id is not reused.
            number = self._numbers[id(shape)] = len(self._shapes)
            self._shapes.append(shape)
        return number
