"""Any one transaction of any series can be left out, however its chunks are cut, and nothing goes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import CorruptEvent, MalformedEvent
from connectors.mysql.charsets import Charsets
from connectors.mysql.chunk import Chunk
from connectors.mysql.chunks import Cutter
from connectors.mysql.context import ROWS
from connectors.mysql.left_out import LeftOut, Omitted, passed
from connectors.mysql.position import Coordinates
from connectors.mysql.transactions import TransactionReader
from tests.golden.load import MAGIC
from tests.golden.test_golden import FILES
from tests.steps import End, Rows, Statement, Step, Xa, steps_of
from tests.unit.connectors.mysql.cutting import fed
from tests.unit.connectors.mysql.wire import packets

SERVER = "srv"
Told = tuple[Any, ...]


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


def read(path: Path, chunks: list[Chunk], left_out: LeftOut | None = None) -> list[Step]:
    told = json.loads(path.with_suffix(".json").read_text())
    known = told["charsets"]
    charsets = Charsets({int(n): name for n, name in known["collations"].items()}, known["widths"])
    reader = TransactionReader(SERVER, charsets, mariadb="MariaDB" in told["server"])
    parts = chunks if left_out is None else [p for one in chunks for p in left_out.parts(one)]
    return list(steps_of(parts, reader))


def told(step: Step) -> Told:
    who = step.transaction
    name = (type(step).__name__, who.id, who.gtid, str(who.start))
    if isinstance(step, Rows):
        return *name, step.event_type, step.body, str(step.start)
    if isinstance(step, Statement):
        return *name, step.query.sql, str(step.start)
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
        left_out = LeftOut(frozenset({name}), SERVER)
        found = read(path, chunks_of(events, target), left_out)
        expected = [
            step for step in every if step.transaction.id != name or isinstance(step, End | Xa)
        ]
        assert [told(step) for step in found] == [told(step) for step in expected]
        (one,) = left_out.done
        (end,) = (step for step in every if step.transaction.id == name and isinstance(step, End))
        assert (one.id, one.start, one.end) == (name, end.transaction.start, end.end)
        assert one.events.total() >= 1
        assert passed(left_out.done, end.end) == left_out.done
        assert passed(left_out.done, end.transaction.start) == []


@pytest.mark.parametrize("target", [1, 1 << 20])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_what_is_damaged_or_unknown_within_one_is_left_out_with_it(path: Path, target: int) -> None:
    events = events_of(path)
    at, rows = next((n, one) for n, one in enumerate(events) if one[4] in ROWS)
    every = read(path, chunks_of(events, target))
    name = next(step.transaction.id for step in every if isinstance(step, Rows))
    damaged = rows[:19] + bytes([rows[19] ^ 255]) + rows[20:]
    events[at] = damaged
    # It is now of another table, which only a checksum tells from one that has no TABLE_MAP.
    expected = MalformedEvent if path.parent.name == "5.5" else CorruptEvent
    with pytest.raises(expected):
        read(path, chunks_of(events, target))
    found = read(path, chunks_of(events, target), LeftOut(frozenset({name}), SERVER))
    assert ids_of(found) == ids_of(every)
    assert not any(isinstance(one, Rows) and one.transaction.id == name for one in found)


def test_all_can_be_left_out_at_once() -> None:
    for path in FILES:
        events = events_of(path)
        names = ids_of(read(path, chunks_of(events, 300)))
        left_out = LeftOut(frozenset(names), SERVER)
        found = read(path, chunks_of(events, 300), left_out)
        assert all(isinstance(step, End | Xa) for step in found)
        assert ids_of(found) == names == [one.id for one in left_out.done]


def test_chunks_without_it_go_by_as_they_are() -> None:
    chunks = chunks_of(events_of(FILES[0]), 300)
    for name in ("0-7-99", "3e11fa47-71ca-11e1-9e33-c80aa9429562:99", f"{SERVER}:other.000001:4"):
        left_out = LeftOut(frozenset({name}), SERVER)
        for chunk in chunks:
            (part,) = left_out.parts(chunk)
            assert part is chunk
        assert left_out.done == list[Omitted]()
