"""Any single transaction of any series can be skipped, however its chunks are cut, and nothing else is."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

from connectors.errors import CorruptEvent, MalformedEvent
from connectors.mysql.binlog.chunk_context import ROWS as ROWS_EVENTS
from connectors.mysql.binlog.events import EventType
from connectors.mysql.charsets import Charsets
from connectors.mysql.lookup.skipped_transactions import (
    SkippedTransaction,
    TransactionSkipper,
    skipped_up_to,
)
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.transaction_reader import TransactionReader
from tests.golden.load import MAGIC
from tests.golden.test_golden import FILES
from tests.made import SERVER as MADE_BY
from tests.made import START, anonymous, event, gtid, int_rows, placed, query
from tests.steps import Change, End, Rows, Statement, Step, Xa, steps_of
from tests.unit.connectors.mysql.cutting import fed
from tests.unit.connectors.mysql.reading import BEGIN, MAP, ROWS, XID, T, reader
from tests.unit.connectors.mysql.wire import packets

SERVER = "srv"
Described = tuple[Any, ...]


def events_of(path: Path) -> list[bytes]:
    data, at, found = path.read_bytes(), len(MAGIC), list[bytes]()
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append(data[at : at + size])
        at += size
    return found


def chunks_of(events: list[bytes], target: int) -> list[Chunk]:
    cutter = Cutter(Coordinates("binlog.000001", 4), checksum=False, target=target)
    return fed(cutter, b"".join(map(packets, events)))


def without(chunks: list[Chunk], left_out: TransactionSkipper[object]) -> list[Chunk]:
    return [part for chunk in chunks for part, _ in left_out.parts(chunk, None)]


def read(
    path: Path, chunks: list[Chunk], left_out: TransactionSkipper[object] | None = None
) -> list[Step]:
    answer = json.loads(path.with_suffix(".json").read_text())
    known = answer["charsets"]
    charsets = Charsets({int(n): name for n, name in known["collations"].items()}, known["widths"])
    reader = TransactionReader(SERVER, charsets, mariadb="MariaDB" in answer["server"])
    parts = chunks if left_out is None else without(chunks, left_out)
    return list(steps_of(parts, reader))


def described(step: Step) -> Described:
    who = step.transaction
    name = (type(step).__name__, who.id, who.gtid, str(who.start))
    if isinstance(step, Rows):
        return *name, step.event_type, step.body, str(step.start)
    if isinstance(step, Statement):
        return *name, step.query.sql, str(step.start)
    if isinstance(step, Change):
        return *name, step.query.sql
    return *name, step.xid if isinstance(step, Xa) else str(step.end)


def ids_of(steps: list[Step]) -> list[str]:
    return [step.transaction.id for step in steps if isinstance(step, End)]


@pytest.mark.parametrize("target", [1, 150, 250, 400, 700, 1 << 20])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_each_transaction_can_be_left_out_alone(path: Path, target: int) -> None:
    events = events_of(path)
    every = read(path, chunks_of(events, target))
    names = ids_of(every)
    assert len(names) > 5
    for name in names:
        left_out = TransactionSkipper[object](frozenset({name}), SERVER)
        found = read(path, chunks_of(events, target), left_out)
        expected = [
            step for step in every if step.transaction.id != name or isinstance(step, End | Xa)
        ]
        assert [described(step) for step in found] == [described(step) for step in expected]
        (one,) = left_out.done
        (end,) = (step for step in every if step.transaction.id == name and isinstance(step, End))
        assert (one.id, one.start, one.end) == (name, end.transaction.start, end.end)
        assert one.events.total() >= 1
        assert skipped_up_to(left_out.done, end.end) == left_out.done
        assert skipped_up_to(left_out.done, end.transaction.start) == []


@pytest.mark.parametrize("target", [1, 1 << 20])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_what_is_damaged_or_unknown_within_one_is_omitted_with_it(path: Path, target: int) -> None:
    events = events_of(path)
    at, rows = next((n, one) for n, one in enumerate(events) if one[4] in ROWS_EVENTS)
    every = read(path, chunks_of(events, target))
    name = next(step.transaction.id for step in every if isinstance(step, Rows))
    damaged = rows[:19] + bytes([rows[19] ^ 255]) + rows[20:]
    events[at] = damaged
    # It is now of another table, which only a checksum distinguishes from one that has no TABLE_MAP.
    expected = MalformedEvent if path.parent.name == "5.5" else CorruptEvent
    with pytest.raises(expected):
        read(path, chunks_of(events, target))
    found = read(
        path, chunks_of(events, target), TransactionSkipper[object](frozenset({name}), SERVER)
    )
    assert ids_of(found) == ids_of(every)
    assert not any(isinstance(one, Rows) and one.transaction.id == name for one in found)


def test_all_can_be_left_out_at_once() -> None:
    for path in FILES:
        events = events_of(path)
        names = ids_of(read(path, chunks_of(events, 300)))
        left_out = TransactionSkipper[object](frozenset(names), SERVER)
        found = read(path, chunks_of(events, 300), left_out)
        assert all(isinstance(step, End | Xa) for step in found)
        assert ids_of(found) == names == [one.id for one in left_out.done]


def test_chunks_without_it_go_by_as_they_are() -> None:
    chunks = chunks_of(events_of(FILES[0]), 300)
    for name in ("0-7-99", "3e11fa47-71ca-11e1-9e33-c80aa9429562:99", f"{SERVER}:other.000001:4"):
        left_out = TransactionSkipper[object](frozenset({name}), SERVER)
        for chunk in chunks:
            ((part, _),) = left_out.parts(chunk, None)
            assert part is chunk
        assert left_out.done == list[SkippedTransaction]()


XA_NAME = "X'61',X'',1"
PREPARED = struct.pack("<BIII", 0, 1, 1, 0) + b"a"
MADE = (
    *(gtid(5), BEGIN, MAP, int_rows(T, *range(60)), MAP, int_rows(T, *range(60)), MAP, ROWS, XID),
    *(gtid(7), BEGIN, MAP, ROWS, XID),
    *(gtid(6), query("ALTER TABLE t ADD d INT")),
    *(gtid(8), query(f"XA START {XA_NAME}"), MAP, ROWS, query(f"XA END {XA_NAME}")),
    *(event(EventType.XA_PREPARE, PREPARED), gtid(9), query(f"XA COMMIT {XA_NAME}")),
    *(
        anonymous(),
        BEGIN,
        MAP,
        ROWS,
        query("COMMIT"),
        BEGIN,
        MAP,
        ROWS,
        query("SAVEPOINT `x`"),
        XID,
    ),
)


def sent(*, checksum: bool) -> bytes:
    found, pos = b"", START.pos
    for one in MADE:
        whole = placed(one, pos, checksum=checksum)
        found, pos = found + packets(whole), pos + len(whole)
    return found


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("number", [5, 6, 7, 8, 9])
def test_one_is_omitted_wherever_it_is_cut(number: int, checksum: bool) -> None:
    data = sent(checksum=checksum)
    for target in (1, 100, 200, 300, 400, 500, 600, 800, 1000, 2000):
        chunks = fed(
            Cutter(START, checksum=checksum, target=target, again=lambda *_: iter([MAP + ROWS])),
            data,
            Random(target),
            50,
        )
        every = list(steps_of(chunks, reader()))
        assert len(ids_of(every)) == 7
        name = f"{MADE_BY}:{number}"
        left_out = TransactionSkipper[object](frozenset({name}), MADE_BY)
        found = list(steps_of(without(chunks, left_out), reader()))
        assert [described(step) for step in found] == [
            described(step)
            for step in every
            if step.transaction.id != name or isinstance(step, End | Xa)
        ]
        # What others depend on is reported: that the XA transaction was prepared, and that it was decided.
        assert [step.is_prepared for step in found if isinstance(step, Xa)] == [True, False]


def test_what_an_omitted_statement_did_to_tables_continues_with_its_position() -> None:
    data = sent(checksum=False)
    for chunk in fed(Cutter(START, checksum=False, target=200), data):
        if chunk.ends_in_statement:
            did = object()
            left_out = TransactionSkipper[object](frozenset({f"{MADE_BY}:6"}), MADE_BY)
            ((part, effect),) = left_out.parts(chunk, did)
            assert (effect, part.ends_in_statement) == (did, True)
            assert part.container is not None
