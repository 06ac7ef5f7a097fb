"""Random histories of a source, as chunks of its binlog and as the changes in them.

Invariant: chunks are cut here by separate rules, at any position, and not by the code that cuts them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import PACKET_PREFIX, Chunk
from connectors.mysql.types.registry import FieldType, MappedColumn
from tests import made
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.actions import (
    TABLES,
    TOPICS,
    Action,
    Change,
    Ddl,
    RowsOf,
    Truncate,
)

CHARSETS = Charsets({255: "utf8mb4"}, {"utf8mb4": 4})

_KINDS = {"c": EventType.WRITE_ROWS, "u": EventType.UPDATE_ROWS, "d": EventType.DELETE_ROWS}

_FILE_OF = 3
"""Transactions in a file."""
_BEFORE = 4
"""The position of a file's first transaction."""


@dataclass(slots=True)
class _Event:
    """An event with its position, and whether a chunk may or must end after it."""

    bare: bytes
    start: Coordinates
    end: Coordinates
    transaction: int
    may_cut: bool = False
    is_head: bool = False
    """Whether it describes its whole transaction, so that later chunks need it."""
    ends_statement: bool = False
    is_alone: bool = False
    """A statement that may change a table: no rows before it in its chunk, nothing after it."""
    must_cut: bool = False


@dataclass(slots=True)
class _Context:
    """The state carried by a chunk that begins within a transaction."""

    start: Coordinates
    head: list[bytes] = field(default_factory=list)
    live: list[bytes] = field(default_factory=list)

    def add(self, event: _Event) -> None:
        kind = event.bare[4]
        if event.is_head:
            self.head.append(event.bare)
        elif kind in (EventType.TABLE_MAP, EventType.ROWS_QUERY):
            self.live.append(event.bare)
        elif event.ends_statement:
            self.live.clear()


class Source:
    """A history as a server with or without GTIDs would show it."""

    def __init__(
        self,
        history: list[list[Action]],
        *,
        gtids: bool,
        broken: int | None = None,
        basename: str = "binlog",
    ) -> None:
        """``broken``: the number of events before one that cannot be read; ``basename``: as of ``log_bin``."""
        self._basename = basename
        self._history = history
        self._gtids = gtids
        self._events: list[_Event] = []
        self.starts: list[Coordinates] = []
        """The position before each transaction."""
        self.ends: list[Coordinates] = []
        """The position after each transaction."""
        self._widths = dict.fromkeys(TABLES, 2)
        for number, actions in enumerate(history, start=1):
            self._write(number, actions)
        if broken is not None:
            at = broken % len(self._events)
            here = self._events[at]
            self._events[at] = _Event(made.event(99), here.start, here.end, here.transaction)
        self._set_apart()
        self.broken = None if broken is None else self._events[at].start

    @property
    def first(self) -> Coordinates:
        """The position at which it begins."""
        return self._events[0].start

    def name(self, number: int) -> str:
        """The name of a transaction, from 1 on."""
        return f"{UUID}:{number}" if self._gtids else f"{UUID}:{self.starts[number - 1]}"

    def ended(self, position: Coordinates) -> int:
        """The number of transactions that end at or before a position."""
        return sum(end.order <= position.order for end in self.ends)

    def chunks(self, start: Coordinates, cuts: Sequence[bool]) -> Iterator[Chunk]:
        """The chunks from a transaction's beginning on; cuts do not depend on where reading began."""
        held: list[_Event] = []
        context: _Context | None = None
        position = 0
        for n, event in enumerate(self._events):
            following = self._events[n + 1] if n + 1 < len(self._events) else None
            is_cut = event.must_cut
            if event.may_cut:
                is_cut = is_cut or cuts[position % len(cuts)]
                position += 1
            if event.start.order < start.order:
                continue
            held.append(event)
            if is_cut:
                chunk = _chunk(held, context)
                chunk.ends_in_statement = event.is_alone
                yield chunk
                context = self._context(held, context, following)
                held = []

    def _set_apart(self) -> None:
        """Chunks end where files do, and around statements that may change a table."""
        for n, event in enumerate(self._events):
            if event.is_alone:
                event.must_cut = True
                before = [one for one in self._events[:n] if one.may_cut]
                if before:
                    before[-1].must_cut = True
            if n and event.start.file != self._events[n - 1].start.file:
                self._events[n - 1].must_cut = True
        self._events[-1].must_cut = True

    @staticmethod
    def _context(
        held: list[_Event], context: _Context | None, following: _Event | None
    ) -> _Context | None:
        if following is None or following.transaction != held[-1].transaction:
            return None
        own = [event for event in held if event.transaction == following.transaction]
        context = context if context and len(own) == len(held) else _Context(own[0].start)
        for event in own:
            context.add(event)
        return context

    def changes(self) -> Iterator[Change]:
        """The meaning of the history, computed without the code under test."""
        for number, actions in enumerate(self._history, start=1):
            name, ordinal = self.name(number), 0
            for action in actions:
                if isinstance(action, Ddl):
                    yield _ddl(name)
                elif isinstance(action, Truncate):
                    yield _ddl(name)
                    if action.table in TOPICS:
                        yield TOPICS[action.table], "t", f"{name}#{ordinal}", None
                else:
                    for keys in action.keys:
                        yield from _row(action, keys, f"{name}#{ordinal}")
                        ordinal += 1

    def _write(self, number: int, actions: list[Action]) -> None:
        """One transaction, as a server writes it."""
        committed = (1000 + number) * 1000
        head = made.gtid(number, committed_us=committed)
        if not self._gtids:
            head = made.anonymous(committed_us=committed)
        self._add(number, head, is_head=True)
        self.starts.append(self._events[-1].start)
        is_one_statement = len(actions) == 1 and not isinstance(actions[0], RowsOf)
        if not is_one_statement:
            self._add(number, made.query("BEGIN", thread=7), is_head=True, may_cut=True)
        for n, action in enumerate(actions):
            if isinstance(action, RowsOf):
                self._write_rows(number, action, text=f"statement {n} of {number}")
            else:
                self._add(number, made.query(_sql(action), thread=7), is_alone=True)
                if isinstance(action, Ddl) and action.widens:
                    self._widths[action.widens] += 1
        if not is_one_statement:
            self._add(number, made.xid())
        self._events[-1].may_cut = True
        self.ends.append(self._events[-1].end)

    def _write_rows(self, number: int, action: RowsOf, *, text: str) -> None:
        """A statement: its text, what its table looks like, and its rows, two to an event."""
        table_map = _table_map(action.table, self._widths[action.table])
        self._add(number, made.rows_query(text))
        self._add(number, made.table_map(table_map))
        for at in range(0, len(action.keys), 2):
            ends = at + 2 >= len(action.keys)
            body = list(_images(action, action.keys[at : at + 2], len(table_map.columns)))
            event = made.rows(table_map, body, kind=_KINDS[action.op], statement_ends=ends)
            self._add(number, event, may_cut=True, ends_statement=ends)

    def _add(
        self,
        number: int,
        bare: bytes,
        *,
        may_cut: bool = False,
        is_head: bool = False,
        ends_statement: bool = False,
        is_alone: bool = False,
    ) -> None:
        file = f"{self._basename}.{1 + (number - 1) // _FILE_OF:06d}"
        last = self._events[-1].end if self._events else None
        start = last if last and last.file == file else Coordinates(file, _BEFORE)
        end = Coordinates(file, start.pos + len(bare) + 4)
        self._events.append(
            _Event(
                bare,
                start,
                end,
                number,
                may_cut=may_cut,
                is_head=is_head,
                ends_statement=ends_statement,
                is_alone=is_alone,
            )
        )


def _chunk(held: list[_Event], context: _Context | None) -> Chunk:
    return made.chunk_of(
        *(event.bare for event in held),
        start=held[0].start,
        prefix=PACKET_PREFIX,
        checksum=True,
        context=() if context is None else (*context.head, *context.live),
        context_start=None if context is None else context.start,
    )


def _ddl(transaction: str) -> Change:
    return "aq.__ddl.shop", "ddl", f"{transaction}#ddl", '{"destination":"shop"}'


def _row(action: RowsOf, keys: tuple[int, int], name: str) -> Iterator[Change]:
    topic = TOPICS.get(action.table)
    if topic is None:
        return
    if topic == "aq.shop.log":
        yield topic, action.op, name, None
        return
    old, new = (f'{{"id":{key}}}' for key in keys)
    if old != new:
        yield topic, "d", f"{name}/0", old
        yield topic, "tombstone", f"{name}/0", old
        yield topic, "c", f"{name}/1", new
        return
    yield topic, action.op, name, new
    if action.op == "d":
        yield topic, "tombstone", name, old


def _sql(action: Ddl | Truncate) -> str:
    if isinstance(action, Ddl):
        return action.sql
    return f"TRUNCATE TABLE `{action.table[0]}`.`{action.table[1]}`"


def _table_map(name: tuple[str, str], width: int) -> TableMap:
    columns = [
        MappedColumn(type=FieldType.LONG, metadata=0, nullable=False, name="id", unsigned=False),
        MappedColumn(
            type=FieldType.VARCHAR, metadata=80, nullable=True, name="note", collation=255
        ),
    ]
    columns += [
        MappedColumn(type=FieldType.LONG, metadata=0, nullable=True, name=f"c{n}", unsigned=False)
        for n in range(width - 2)
    ]
    return TableMap(
        table_id=10 * width + TABLES.index(name),
        database=name[0],
        table=name[1],
        columns=tuple(columns),
        primary_key=None if name[1] == "log" else (0,),
    )


def _images(action: RowsOf, keys: Sequence[tuple[int, int]], width: int) -> Iterator[bytes]:
    for old, new in keys:
        yield _image(old, width)
        if action.op == "u":
            yield _image(new, width)


def _image(key: int, width: int) -> bytes:
    note = "né".encode() * key
    nulls = bytes((width + 7) // 8)
    return nulls + struct.pack("<i", key) + bytes([len(note)]) + note + bytes(4 * max(0, width - 2))
