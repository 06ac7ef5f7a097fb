"""Random histories of a source, as the steps its binlog gives and as the changes that they mean."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from connectors.mysql.charsets import Charsets
from connectors.mysql.events import EventType, Query
from connectors.mysql.position import Coordinates
from connectors.mysql.statements import Kind
from connectors.mysql.table_map import FieldType, MappedColumn, TableMap
from connectors.mysql.transactions import End, Rows, Statement, Step, Transaction

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CHARSETS = Charsets({255: "utf8mb4"}, {"utf8mb4": 4})
TABLES = (("shop", "orders"), ("shop", "log"), ("other", "orders"))
"""With a key and captured, without a key and captured, with a key and filtered."""
TOPICS = {("shop", "orders"): "aq.shop.orders", ("shop", "log"): "aq.shop.log"}

_KINDS = {"c": EventType.WRITE_ROWS, "u": EventType.UPDATE_ROWS, "d": EventType.DELETE_ROWS}


@dataclass(frozen=True, slots=True)
class RowsOf:
    """A rows event: for each row the key before and after, the same but where a key changes."""

    table: tuple[str, str]
    op: str
    keys: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Ddl:
    """A statement; ``widens`` names the table that gets a column more."""

    sql: str
    widens: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """A TRUNCATE of a table."""

    table: tuple[str, str]


Action = RowsOf | Ddl | Truncate
Change = tuple[str, str, str, str | None]
"""Topic, kind (``tombstone`` and ``ddl`` too), ChangeId, key as text."""


@st.composite
def rows_events(draw: st.DrawFn) -> RowsOf:
    op = draw(st.sampled_from("cuud"))
    number = st.integers(1, 3)
    pairs = draw(st.lists(st.tuples(number, number), min_size=1, max_size=5))
    keys = tuple((old, new if op == "u" else old) for old, new in pairs)
    return RowsOf(draw(st.sampled_from(TABLES)), op, keys)


ddls = st.one_of(
    st.just(Ddl("CREATE VIEW v AS SELECT 1")),
    st.sampled_from(TABLES).map(lambda name: Ddl(f"ALTER TABLE {name[1]} ADD c INT", name)),
)
transactions: st.SearchStrategy[list[Action]] = st.one_of(
    st.lists(st.one_of(rows_events(), rows_events(), rows_events(), ddls), max_size=6).map(
        list[Action]
    ),
    st.sampled_from(TABLES).map(lambda name: [Truncate(name)]).map(list[Action]),
)
histories: st.SearchStrategy[list[list[Action]]] = st.lists(transactions, min_size=1, max_size=6)


class Source:
    """A history as a server with or without GTIDs would show it."""

    def __init__(self, history: list[list[Action]], *, gtids: bool) -> None:
        self._history = history
        self._gtids = gtids

    def steps(self, start: Coordinates) -> Iterator[Step]:
        """What is read from a transaction's beginning on."""
        for transaction, steps in self._transactions():
            if transaction.start.order >= start.order:
                yield from steps

    def changes(self) -> Iterator[Change]:
        """What the history means, told without any of the code under test."""
        for number, actions in enumerate(self._history, start=1):
            name, ordinal = self._transaction(number).id, 0
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

    def _transaction(self, number: int) -> Transaction:
        start = Coordinates("binlog.000001", number * 1000)
        gtid = f"{UUID}:{number}" if self._gtids else None
        return Transaction(
            id=gtid or f"{UUID}:{start}",
            gtid=gtid,
            start=start,
            committed_ms=1000 + number,
            server_id=1,
            thread=7,
        )

    def _transactions(self) -> Iterator[tuple[Transaction, list[Step]]]:
        widths = dict.fromkeys(TABLES, 2)
        maps: dict[tuple[tuple[str, str], int], TableMap] = {}
        for number, actions in enumerate(self._history, start=1):
            transaction = self._transaction(number)
            steps: list[Step] = []
            for n, action in enumerate(actions):
                place = Coordinates(transaction.start.file, transaction.start.pos + 10 * (n + 1))
                if isinstance(action, RowsOf):
                    kind = (action.table, widths[action.table])
                    table_map = maps.setdefault(kind, _table_map(*kind))
                    body = _body(table_map, action)
                    steps.append(Rows(transaction, table_map, _KINDS[action.op], body, place))
                else:
                    steps.append(_statement(transaction, action, place))
                    if isinstance(action, Ddl) and action.widens:
                        widths[action.widens] += 1
            end = Coordinates(transaction.start.file, (number + 1) * 1000)
            yield transaction, [*steps, End(transaction, end)]


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


def _statement(transaction: Transaction, action: Ddl | Truncate, place: Coordinates) -> Statement:
    if isinstance(action, Ddl):
        return Statement(transaction, Kind.DDL, Query(7, "shop", action.sql, 0, 0), place)
    sql = f"TRUNCATE TABLE `{action.table[0]}`.`{action.table[1]}`"
    return Statement(transaction, Kind.TRUNCATE, Query(7, "shop", sql, 0, 0), place)


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


def _body(table_map: TableMap, action: RowsOf) -> bytes:
    """As ``rows_event.h`` has it: table id, flags, no extra data, width, bitmaps, images."""
    width = len(table_map.columns)
    present = ((1 << width) - 1).to_bytes((width + 7) // 8, "little")
    head = table_map.table_id.to_bytes(6, "little") + b"\0\0\2\0" + bytes([width])
    images = b""
    for old, new in action.keys:
        images += _image(old, width) + (_image(new, width) if action.op == "u" else b"")
    return head + present * (2 if action.op == "u" else 1) + images


def _image(key: int, width: int) -> bytes:
    note = "né".encode() * key
    nulls = bytes((width + 7) // 8)
    return nulls + struct.pack("<i", key) + bytes([len(note)]) + note + bytes(4 * max(0, width - 2))
