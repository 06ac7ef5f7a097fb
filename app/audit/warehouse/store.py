"""The warehouse's rows and the required rows, together in an SQLite file.

Invariant: a row of the warehouse is found by the unique number of the change that made it, so no key has to be
compared to find it. Keys are in the form of the module `values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import orjson

from connectors.scratch_file import scratch

_BATCH = 5000
_TABLES = """
CREATE TABLE held (t INTEGER, seq INTEGER, delta INTEGER, epoch INTEGER, n INTEGER, digest BLOB,
  PRIMARY KEY (t, seq, delta)) WITHOUT ROWID;
CREATE TABLE wanted (t INTEGER, era INTEGER, key BLOB, seq INTEGER, delta INTEGER, epoch INTEGER,
  alive INTEGER, version INTEGER, partition INTEGER, offset INTEGER, image BLOB, PRIMARY KEY (t, era, key))
  WITHOUT ROWID;
CREATE TABLE carried AS SELECT * FROM wanted;
CREATE TABLE joined AS SELECT * FROM wanted;
CREATE UNIQUE INDEX joined_key ON joined (key);
CREATE TABLE others (t INTEGER, key BLOB, PRIMARY KEY (t, key)) WITHOUT ROWID;
"""
# A truncate gives its own number to all rows of a table; they are deleted, and never looked up one by one.
_HOLD = """
INSERT INTO held VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (t, seq, delta) DO UPDATE SET
  digest = iif(n = 0, excluded.digest, digest), n = n + excluded.n
"""
_WANT = """
INSERT INTO wanted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (t, era, key) DO UPDATE SET
  seq = excluded.seq, delta = excluded.delta, epoch = excluded.epoch, alive = excluded.alive,
  version = excluded.version, partition = excluded.partition, offset = excluded.offset,
  image = excluded.image
  WHERE (excluded.epoch, excluded.seq) > (wanted.epoch, wanted.seq)
"""
_CARRY = "INSERT OR REPLACE INTO joined VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FOLLOW = (
    "DELETE FROM joined WHERE key IN (SELECT key FROM wanted WHERE t = ? AND era = ?)",
    "INSERT INTO joined SELECT * FROM wanted WHERE t = ? AND era = ? AND alive",
)
_PASS_ON = (
    "DELETE FROM carried",
    "INSERT INTO carried SELECT * FROM joined",
    "DELETE FROM joined",
)
_OTHERS = "INSERT OR IGNORE INTO others VALUES (?, ?)"


class WarehouseRow(NamedTuple):
    """A row of the warehouse, or an image in a log."""

    t: int
    seq: int
    delta: int
    """+1 or -1 for an image of a log; 0 for a row of a table with a key."""
    epoch: int
    n: int
    """The number of such rows that are not deleted."""
    content: bytes


class ExpectedRow(NamedTuple):
    """The row after the last applied change of a key; in a log, one image."""

    t: int
    era: int
    """The number of the key among the successive keys of the table; 0 if the table has had only one."""
    key: bytes
    seq: int
    delta: int
    epoch: int
    alive: bool
    version: int
    partition: int
    offset: int
    image: bytes


class WarehouseStore:
    """Filled with the warehouse first, then with the required rows."""

    def __init__(self) -> None:
        self._db = scratch(_TABLES)
        self._waiting: dict[str, list[tuple[Any, ...]]] = {_HOLD: [], _WANT: [], _OTHERS: []}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def hold(self, row: WarehouseRow) -> None:
        """Add a row of the warehouse."""
        self._note(_HOLD, row)

    def leave(self, t: int, key: bytes) -> None:
        """Add a key whose row, deleted or not, is of another destination."""
        self._note(_OTHERS, (t, key))

    def is_of_another(self, t: int, key: bytes) -> bool:
        """Whether the row of a key is of another destination; requires flush."""
        found = self._db.execute("SELECT 1 FROM others WHERE t = ? AND key = ?", (t, key))
        return found.fetchone() is not None

    def want(self, row: ExpectedRow) -> None:
        """Add a required row, in place of the row of an older change of the same key."""
        self._note(_WANT, row)

    def holds(self, t: int, seq: int) -> bool:
        """Whether some row was made by a change."""
        found = self._db.execute("SELECT 1 FROM held WHERE t = ? AND seq = ?", (t, seq))
        return found.fetchone() is not None

    def wanted(self, t: int) -> Iterator[tuple[ExpectedRow, bytes | None]]:
        """Yield a table's required rows, each with the actual row or None; a deleted row counts as none."""
        self.flush()
        rows = self._db.execute(
            "SELECT w.*, h.digest FROM wanted w LEFT JOIN held h ON h.t = w.t AND h.seq = w.seq AND "
            "h.delta = w.delta AND h.epoch = w.epoch AND h.n > 0 WHERE w.t = ? AND w.alive",
            (t,),
        )
        for row in rows:
            yield ExpectedRow(*row[:-1]), row[-1]

    def unwanted(self, t: int) -> Iterator[WarehouseRow]:
        """The surplus rows of a table."""
        self.flush()
        self._db.execute("CREATE INDEX IF NOT EXISTS by_number ON wanted (t, seq, delta)")
        rows = self._db.execute(
            "SELECT h.* FROM held h WHERE h.t = ? AND h.n > 0 AND NOT EXISTS (SELECT 1 FROM wanted w "
            "WHERE w.t = h.t AND w.seq = h.seq AND w.delta = h.delta AND w.epoch = h.epoch AND w.alive)",
            (t,),
        )
        for row in rows:
            yield WarehouseRow(*row)

    def repeated(self, t: int) -> Iterator[WarehouseRow]:
        """The repeated rows of a table."""
        for row in self._db.execute("SELECT * FROM held WHERE t = ? AND n > 1", (t,)):
            yield WarehouseRow(*row)

    def empty(self, t: int, floor: tuple[int, int], source: tuple[str, str] | None) -> None:
        """Remove required rows from before a truncate; with ``source``, only the rows of this real table."""
        self.flush()
        # An image begins with the real database and table.
        begin = b"[" if source is None else orjson.dumps(source)[:-1] + b","
        self._db.execute(
            "UPDATE wanted SET alive = 0 WHERE t = ? AND (epoch, seq) < (?, ?) "
            "AND substr(image, 1, ?) = ?",
            (t, *floor, len(begin), begin),
        )

    def rekey(self, t: int, eras: int, key_of: Callable[[ExpectedRow, int], bytes | None]) -> int:
        """Convert the rows that are required under the keys of successive eras to the key of the last era.

        A row that exists at the end of an era is carried into the next era, under the key that its image has
        there. ``key_of`` receives a row and an era, and returns None if the image lacks a column of that era's
        key. Such a row is neither required nor surplus. Return the number of such rows.
        """
        self.flush()
        unknown: list[tuple[int, int]] = []

        def carried(era: int) -> Iterator[tuple[Any, ...]]:
            for row in self._db.execute("SELECT * FROM carried"):
                one = ExpectedRow(*row)
                key = key_of(one, era)
                if key is None:
                    unknown.append((t, one.seq))
                else:
                    yield tuple(one._replace(era=0, key=key))

        self._db.execute("BEGIN")
        for era in range(eras):
            self._db.executemany(_CARRY, carried(era))
            for statement in _FOLLOW:
                self._db.execute(statement, (t, era))
            for statement in _PASS_ON:
                self._db.execute(statement)
        self._db.execute("DELETE FROM wanted WHERE t = ?", (t,))
        self._db.execute("INSERT INTO wanted SELECT * FROM carried")
        self._db.execute("DELETE FROM carried")
        self._db.executemany("DELETE FROM held WHERE t = ? AND seq = ?", unknown)
        self._db.execute("COMMIT")
        return len(unknown)

    def renumber(self, t: int, eras: Mapping[int, int]) -> None:
        """Give the required rows of a table other eras; of several rows under one key, the latest stays."""
        self.flush()
        self._db.execute("BEGIN")
        self._db.execute("INSERT INTO carried SELECT * FROM wanted WHERE t = ?", (t,))
        self._db.execute("DELETE FROM wanted WHERE t = ?", (t,))
        rows = (ExpectedRow(*row) for row in self._db.execute("SELECT * FROM carried"))
        self._db.executemany(_WANT, (tuple(row._replace(era=eras[row.era])) for row in rows))
        self._db.execute("DELETE FROM carried")
        self._db.execute("COMMIT")

    def flush(self) -> None:
        """Write buffered rows."""
        for statement, rows in self._waiting.items():
            if rows:
                self._db.execute("BEGIN")
                self._db.executemany(statement, rows)
                self._db.execute("COMMIT")
                rows.clear()

    def _note(self, statement: str, row: tuple[Any, ...]) -> None:
        waiting = self._waiting[statement]
        waiting.append(row)
        if len(waiting) >= _BATCH:
            self.flush()
