"""Exactly once in the subscriber's own SQL database: the position is stored in the transaction of the effect.

Drivers of PEP 249 differ in the classes of their errors: psycopg raises ``UniqueViolation``, a subclass of its
``IntegrityError``. Each error ends PostgreSQL's transaction, so nothing is executed after an error.

Invariant: the newest ``(epoch, seq)`` of each partition and destination is changed only from the value that was
read, in the caller's transaction, before the effects of the records. So a record is applied once, whatever is
delivered again and whichever client is still running.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from aqueduct_client.errors import InvalidSubscription, NoTransaction, ProgressMoved
from aqueduct_client.records import Partition, Record

TABLE = "aqueduct_progress"
_TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_ASCII = "CHARACTER SET ascii COLLATE ascii_bin"
"""By default MySQL ignores the case of names. That of a topic is ASCII, which keeps the table's key short."""
_EXACT = (
    f"ALTER TABLE {TABLE} MODIFY subscriber VARCHAR(120) {_TEXT} NOT NULL, "
    f"MODIFY topic VARCHAR(249) {_ASCII} NOT NULL, MODIFY destination VARCHAR(120) {_TEXT} NOT NULL"
)
# MySQL executes what is in these comments. Other databases compare names exactly by default.
_CREATE = f"""\
CREATE TABLE IF NOT EXISTS {TABLE} (
  subscriber VARCHAR(120) /*!50503 {_TEXT} */ NOT NULL,
  topic VARCHAR(249) /*!50503 {_ASCII} */ NOT NULL,
  part INTEGER NOT NULL,
  destination VARCHAR(120) /*!50503 {_TEXT} */ NOT NULL,
  epoch BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  PRIMARY KEY (subscriber, topic, part, destination)
)"""
_WHERE = "subscriber = ? AND topic = ? AND part = ? AND destination = ?"
_SELECT = f"SELECT epoch, seq, subscriber, topic, destination FROM {TABLE} WHERE {_WHERE}"  # noqa: S608 - words of ours
_INSERT = f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_UPDATE = f"UPDATE {TABLE} SET epoch = ?, seq = ? WHERE {_WHERE} AND epoch = ? AND seq = ?"  # noqa: S608

_OVERTAKEN = {"40001", "40P01"}
"""SQLSTATE of a serialization failure, and of a deadlock, as PostgreSQL and MySQL's connector report them."""
_DEADLOCK = 1213
_IN_TRANSACTION = 1
"""MySQL's error ER_LOCK_DEADLOCK, and its flag SERVER_STATUS_IN_TRANS."""

Position = tuple[int, int]
"""Epoch and seq."""


class Cursor(Protocol):
    """A cursor of Python's database API (PEP 249), in an open transaction."""

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""
        ...

    def execute(self, operation: str, parameters: tuple[object, ...] = ..., /) -> object:
        """Run a statement."""
        ...

    def fetchone(self) -> Any:
        """Return a row; None without one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlProgress:
    """The progress of a subscriber in the table ``aqueduct_progress`` of its own database."""

    subscriber: str
    """Its name; subscribers with the same name in one database apply each change once together."""
    placeholder: str = "?"
    """As the driver writes it: ``?`` for sqlite3, ``%s`` for PyMySQL and psycopg."""

    def create_table(self, cursor: Cursor) -> None:
        """Make the table, if it does not exist. MySQL commits the open transaction at this statement."""
        cursor.execute(_CREATE)

    def new_of(self, cursor: Cursor, records: Iterable[Record]) -> list[Record]:
        """Return the records that were not applied yet, and store them as applied.

        Apply them in the same transaction. Raise ProgressMoved if another client has applied some meanwhile,
        and InvalidSubscription if the table takes a name for another one, as MySQL does in one that an earlier
        version made.
        """
        found: list[Record] = []
        stored: dict[tuple[Partition, str], Position | None] = {}
        newest: dict[tuple[Partition, str], Position] = {}
        for record in records:
            if not newest:
                _refuse_autocommit(cursor)
            stream = record.raw.partition, record.destination
            if stream not in stored:
                stored[stream] = self._position(cursor, *stream)
                newest[stream] = stored[stream] or (0, 0)
            position = record.epoch, record.seq
            if position > newest[stream]:
                newest[stream] = position
                found.append(record)
        for stream, position in newest.items():
            if position != (stored[stream] or (0, 0)):
                self._store(cursor, *stream, before=stored[stream], position=position)
        return found

    def _position(self, cursor: Cursor, partition: Partition, destination: str) -> Position | None:
        self._execute(cursor, _SELECT, self.subscriber, *partition, destination)
        row = cursor.fetchone()
        if row is None:
            return None
        for name, found in zip(
            (self.subscriber, partition.topic, destination), row[2:], strict=True
        ):
            # Some drivers return the text of a binary collation as bytes.
            stored = bytes(found).decode() if isinstance(found, bytes | bytearray) else found
            if stored != name:
                raise InvalidSubscription(
                    f"the table {TABLE}, which an earlier version made, takes {name!r} for {stored!r}, so that "
                    "each skips changes that only the other has applied. Nothing was stored. Stop the clients "
                    f"of both, and run: {_EXACT}"
                )
        return int(row[0]), int(row[1])

    def _store(
        self, cursor: Cursor, partition: Partition, destination: str,
        *, before: Position | None, position: Position,
    ) -> None:  # fmt: skip
        name = (self.subscriber, *partition, destination)
        try:
            if before is None:
                self._execute(cursor, _INSERT, *name, *position)
            else:
                self._execute(cursor, _UPDATE, *position, *name, *before)
        except Exception as error:
            if _was_overtaken(error):
                raise ProgressMoved(subscriber=self.subscriber, topic=partition.topic) from error
            raise
        if cursor.rowcount != 1:
            raise ProgressMoved(subscriber=self.subscriber, topic=partition.topic)

    def _execute(self, cursor: Cursor, statement: str, *values: object) -> None:
        cursor.execute(statement.replace("?", self.placeholder), values)


def _was_overtaken(error: Exception) -> bool:
    """Whether another transaction has stored the position first; each driver has classes of its own."""
    if any(each.__name__ == "IntegrityError" for each in type(error).__mro__):
        return True
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state in _OVERTAKEN or error.args[:1] == (_DEADLOCK,)


def _refuse_autocommit(cursor: Cursor) -> None:
    """Raise NoTransaction if each statement commits by itself, as far as the driver shows it."""
    connection: Any = getattr(cursor, "connection", None)
    if hasattr(connection, "in_transaction") and hasattr(connection, "isolation_level"):  # sqlite3
        commits = connection.isolation_level is None and not connection.in_transaction
    elif hasattr(connection, "info") and hasattr(connection, "autocommit"):  # psycopg
        commits = connection.autocommit and int(connection.info.transaction_status) == 0
    elif hasattr(connection, "get_autocommit") and hasattr(connection, "server_status"):  # PyMySQL
        commits = connection.get_autocommit() and not connection.server_status & _IN_TRANSACTION
    else:
        return
    if commits:
        raise NoTransaction
