"""The events of mysqlbinlog's text: transactions, tables, rows, statements.

Invariant: none of the worker's decoding is used here. Lines are bytes, and a value stays as printed until it is
compared. Rows that the program could not print become an event of their own. Source: MySQL's
client/mysqlbinlog.cc and sql/log_event.cc, with ``--base64-output=DECODE-ROWS -v --print-table-metadata``. Rows
of a statement follow the headers of all its events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from app.audit.errors import TruthUnreadable
from app.audit.table_shape import Shape, line_ends_in_names, shape_of
from connectors.mysql.binlog.statement_kind import Kind, kind_of
from connectors.mysql.binlog.undone_rows import savepoint_of
from wire.text import printed


class FileBegins(NamedTuple):
    """A file begins."""

    file: str


class Before(NamedTuple):
    """The GTIDs of all files before this one, as text."""

    gtids: str


class TransactionBegins(NamedTuple):
    """A transaction begins; ``gtid`` is None if the server gives none."""

    gtid: str | None
    pos: int
    ts_ms: int


class Row(NamedTuple):
    """One row; images are lines ``n=value``, ``n`` from 1, as they are printed."""

    kind: str
    """``c``, ``u`` or ``d``."""
    shape: Shape
    pos: int
    """The offset of the statement's first rows event."""
    before: bytes
    after: bytes


class UnreadableRows(NamedTuple):
    """Rows that the witness could not read; their number is not known."""

    shape: Shape
    pos: int
    why: str = ""


class Statement(NamedTuple):
    """A statement that is not a transaction marker."""

    sql: str
    database: str | None
    pos: int


class XaBegins(NamedTuple):
    """The rows that follow are of an XA transaction."""

    xid: str


class XaEnded(NamedTuple):
    """An XA transaction is prepared, committed or rolled back: ``PREPARE``, ``COMMIT``, ``ROLLBACK``."""

    xid: str
    what: str


class SavepointSet(NamedTuple):
    """A savepoint of the transaction."""

    name: str


class RowsUndone(NamedTuple):
    """The transaction's rows since a savepoint are undone; without a savepoint, all of its rows are."""

    savepoint: str | None


class TransactionEnds(NamedTuple):
    """The transaction is complete; ``pos`` is after it."""

    pos: int


Event = (
    FileBegins
    | Before
    | TransactionBegins
    | Row
    | UnreadableRows
    | Statement
    | XaBegins
    | XaEnded
    | SavepointSet
    | RowsUndone
    | TransactionEnds
)

_HEADER = re.compile(
    rb"#(\d{6} +\d+:\d\d:\d\d) server id \d+  end_log_pos (\d+)(?: CRC32 0x[0-9a-f]+)? *\t(.*)\n?"
)
_MAP = re.compile(rb"Table_map: `(.*)` mapped to number \d+", re.DOTALL)
_ROW = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\n", re.DOTALL)
_HEADS = (b"### INSERT INTO `", b"### UPDATE `", b"### DELETE FROM `")
_COMMITTED = re.compile(rb"original_committed_timestamp=(\d+)")
_NEXT = re.compile(rb"SET @@SESSION.GTID_NEXT= '([^']*)'")
_USE = re.compile(rb"use `(.*)`/\*!\*/;\n")
_XA = re.compile(r"XA (START|END|PREPARE|COMMIT|ROLLBACK)\s+(\S+)(\s+ONE PHASE)?")
_END_OF_STATEMENT = b"/*!*/;\n"
_KINDS = {b"INSERT INTO": "c", b"UPDATE": "u", b"DELETE FROM": "d"}
_ROWS_EVENTS = (b"Write_rows", b"Update_rows", b"Delete_rows")
_CREATED_WITH_ROWS = "START TRANSACTION"
"""The server's suffix to the CREATE of a CREATE … SELECT, whose rows follow in the same transaction."""


def events(lines: Iterator[bytes]) -> Iterator[Event]:
    """Yield the events in their order."""
    return _Reading(lines).events()


class Transactions:
    """The beginnings and ends of transactions, from statements and GTID events.

    The subclass that reads a binlog keeps the positions.
    """

    def __init__(self) -> None:
        self._pos = self._end = 0
        self._database: str | None = None
        self._is_open = False
        """Whether a transaction was announced or begun, and has not ended."""
        self._ts_ms = 0

    def _transaction(self, name: bytes | None) -> TransactionBegins:
        self._is_open = True
        gtid = None if name in (None, b"ANONYMOUS") else (name or b"").decode().lower()
        return TransactionBegins(gtid, self._pos, self._ts_ms)

    def _ended(self) -> TransactionEnds:
        self._is_open = False
        return TransactionEnds(self._end)

    def _statement(self, sql: str) -> Iterator[Event]:
        words = sql.upper().split(None, 2)
        first = words[0] if words else ""
        if first == "XA":
            yield from self._xa(sql)
        elif first == "SAVEPOINT":
            yield SavepointSet(savepoint_of(sql))
        elif words[:2] == ["ROLLBACK", "TO"]:
            yield RowsUndone(savepoint_of(sql))
        elif first in ("RELEASE", ""):
            return
        elif first in ("COMMIT", "ROLLBACK"):
            if first == "ROLLBACK":
                yield RowsUndone(None)
            yield self._ended()
        elif first == "BEGIN":
            if not self._is_open:  # a server without any announcement, as before MySQL 5.7
                yield self._transaction(None)
        else:
            if not self._is_open:
                yield self._transaction(None)
            if kind_of(sql) is Kind.CHANGE:
                # A change that is logged as a statement has no rows; the end of its transaction follows.
                return
            yield Statement(sql, self._database, self._pos)
            if not sql.endswith(_CREATED_WITH_ROWS):
                yield self._ended()

    def _xa(self, sql: str) -> Iterator[Event]:
        found = _XA.match(sql)
        if found is None or found[1] == "END":
            return
        if found[1] == "START":
            if not self._is_open:
                yield self._transaction(None)
            yield XaBegins(found[2])
            return
        if not self._is_open:
            yield self._transaction(None)
        yield XaEnded(found[2], found[1])
        yield self._ended()


class _Reading(Transactions):
    def __init__(self, lines: Iterator[bytes]) -> None:
        super().__init__()
        self._lines = lines
        self._line = b""
        """The next line; empty at the end."""
        self._rows_pos: int | None = None
        self._tables: dict[bytes, tuple[bytes, ...]] = {}
        """The printed lines of each table, by its name in them, in which no backtick is doubled."""

    def events(self) -> Iterator[Event]:
        self._advance()
        while line := self._line:
            if line.startswith(b"# at "):
                self._pos = int(line[5:])
                self._advance()
            elif line.startswith(b"###"):
                yield from self._rows()
            elif header := _HEADER.match(line):
                self._advance()
                self._end = int(header[2])
                yield from self._event(header[3], header[1])
            elif found := _NEXT.match(line):
                self._advance()
                if found[1] != b"AUTOMATIC":  # the program's own word, not the server's
                    yield self._transaction(found[1])
            else:
                self._advance()

    def _advance(self) -> None:
        self._line = next(self._lines, b"")

    def _event(self, text: bytes, clock: bytes) -> Iterator[Event]:
        if text.startswith(_ROWS_EVENTS):
            if self._rows_pos is None:
                self._rows_pos = self._pos
            return
        if text.startswith(b"Table_map: `"):
            # A name may have line ends.
            while (found := _MAP.match(text)) is None and self._line:
                text += b"\n" + self._line.removesuffix(b"\n")
                self._advance()
            if found is not None:
                self._tables[found[1]] = self._described()
            return
        self._rows_pos = None
        if text.startswith(b"Query\t"):
            yield from self._query(clock)
        elif text.startswith(b"Xid = "):
            yield self._ended()
        elif text.startswith(b"Rotate to "):
            yield FileBegins(text[len(b"Rotate to ") :].partition(b"  pos: ")[0].decode())
        elif text.startswith(b"Previous-GTIDs"):
            yield Before(self._previous())
        elif text.startswith((b"XA PREPARE", b"XA COMMIT")):
            yield from self._xa(self._one_phase() or text.decode())
        elif found := _COMMITTED.search(text):
            self._ts_ms = int(found[1]) // 1000 or _milliseconds(clock)

    def _previous(self) -> str:
        found = []
        while self._line.startswith(b"# ") and not self._line.startswith(b"# at "):
            found.append(self._line[2:].strip().decode())
            self._advance()
        text = "".join(found)
        return "" if text == "[empty]" else text

    def _described(self) -> tuple[bytes, ...]:
        lines = []
        while self._line.startswith(b"#") and not self._line.startswith(b"# at "):
            lines.append(self._line)
            self._advance()
            # A name may have line ends.
            while lines[-1].count(b"`") % 2 and self._line and not self._line.startswith(b"#"):
                lines[-1] += self._line
                self._advance()
            if lines[-1].startswith(b"# Primary Key("):
                # Names are printed unquoted here, so only the columns show where the key ends.
                for _ in range(line_ends_in_names(lines)):
                    if lines[-1].endswith(b")\n") and shape_of((b"`.`", *lines)).primary_key:
                        break
                    lines[-1] += self._line
                    self._advance()
        return tuple(lines)

    def _whole(self, line: bytes) -> bytes:
        """The line with a table's name, and the lines that follow if the name has line ends."""
        while line.count(b"`") % 2 and (more := next(self._lines, b"")):
            line += more
        return line

    def _shape(self, name: bytes) -> Shape:
        """The table of rows, by the name that is printed with the rows."""
        plain = name.replace(b"``", b"`")
        lines = self._tables.get(plain, self._tables.get(name))
        if lines is None:
            shown = printed(plain.decode("utf-8", "replace"))
            raise TruthUnreadable(f"rows of `{shown}` without a description of it at {self._pos}")
        return shape_of((plain, *lines))

    def _query(self, clock: bytes) -> Iterator[Event]:
        """Read a QUERY event: lines of settings and the database, which end in ``/*!*/;``, then its text."""
        text: list[bytes] = []
        while self._line and self._line != _END_OF_STATEMENT:
            if text or not self._line.endswith(_END_OF_STATEMENT):
                text.append(self._line)
            elif found := _USE.match(self._line):
                self._database = found[1].decode().replace("``", "`")
            self._advance()
        if not self._is_open:
            self._ts_ms = _milliseconds(clock)
        return self._statement(b"".join(text).decode("utf-8", "replace").rstrip("\n"))

    def _one_phase(self) -> str | None:
        """The XA COMMIT … ONE PHASE after a header that reads XA PREPARE; None if no such statement follows."""
        text = self._line.decode("utf-8", "replace")
        found = _XA.match(text)
        return text if found and found[1] == "COMMIT" and found[3] else None

    def _rows(self) -> Iterator[Event]:
        """All rows of a statement. They are most of the text, so this loop does one thing per line."""
        pos = self._pos if self._rows_pos is None else self._rows_pos
        lines = self._lines
        kind, shape = "", None
        before: list[bytes] = []
        after: list[bytes] = []
        image = after
        line = self._line
        while line.startswith(b"###"):
            if line.startswith(b"###   @"):
                image.append(line[7:-1])
            elif line == b"### SET\n":
                image = after
            elif line == b"### WHERE\n":
                image = before
            elif line.startswith(_HEADS) and (found := _ROW.match(self._whole(line))):
                if shape is not None:
                    yield _row(kind, shape, pos, before, after)
                kind, shape = _KINDS[found[1]], self._shape(found[2])
                before, after = [], []
            line = next(lines, b"")
        if shape is not None:
            yield _row(kind, shape, pos, before, after)
        self._line = line


def _row(
    kind: str, shape: Shape, pos: int, before: list[bytes], after: list[bytes]
) -> Row | UnreadableRows:
    # A value that the program cannot print is the last output of an event.
    for image in (before, after):
        if image and image[-1].partition(b"=")[2].startswith(b"!! "):
            return UnreadableRows(shape, pos)
    return Row(kind, shape, pos, b"\n".join(before), b"\n".join(after))


def _milliseconds(clock: bytes) -> int:
    """A header's time, which is in UTC as the program is run."""
    moment = datetime.strptime(clock.decode(), "%y%m%d %H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
