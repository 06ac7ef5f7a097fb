"""Debezium's records over a made-up binlog: each gets its row's name, and each fault is found by its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from pymysqlreplication.event import GtidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from demo.truth import truth_of
from tests.crash.peers import adapter, debezium, report
from tests.crash.peers.faults import FAULTS
from tests.crash.peers.run import PeerOutcome, compare, once
from tests.crash.verdict import Source, Topics

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILE = "binlog.000002"
SIZE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The content of a record."""

    gtid: int
    end: int
    row: int
    op: str
    key: int
    headers: tuple[tuple[str, bytes], ...] = ()
    offset: int = 0


MADE = (
    Row(gtid=1, end=100, row=0, op="c", key=1),
    Row(gtid=1, end=100, row=1, op="c", key=2),
    Row(gtid=2, end=200, row=0, op="d", key=1, headers=(("__debezium.newkey", b"3"),)),
    Row(gtid=2, end=200, row=0, op="c", key=3, headers=(("__debezium.oldkey", b"1"),)),
    Row(gtid=2, end=240, row=0, op="d", key=2),
)


def event(kind: type, **attributes: Any) -> Any:
    made: Any = object.__new__(kind)
    for name, value in attributes.items():
        made.__dict__[name] = value
    return made


def binlog() -> list[tuple[str, Any]]:
    """Two rows inserted; then one whose key changes, and one deleted."""

    def rows(kind: type, end: int, *values: dict[str, Any]) -> Any:
        packet = SimpleNamespace(log_pos=end, event_size=SIZE)
        held = {"schema": "shop", "table": "goods", "primary_key": "id", "packet": packet}
        return event(kind, **held, _RowsEvent__rows=list(values))

    moved = {"before_values": {"id": 1}, "after_values": {"id": 3}}
    gtids = [adapter_gtid(n) for n in (1, 2)]
    return [
        (FILE, gtids[0]),
        (FILE, rows(WriteRowsEvent, 100, {"values": {"id": 1}}, {"values": {"id": 2}})),
        (FILE, gtids[1]),
        (FILE, rows(UpdateRowsEvent, 200, moved)),
        (FILE, rows(DeleteRowsEvent, 240, {"values": {"id": 2}})),
    ]


def adapter_gtid(number: int) -> Any:
    return event(GtidEvent, sid=bytes.fromhex(UUID.replace("-", "")), gno=number)


def message(row: Row, offset: int) -> Any:
    value = {
        "op": row.op,
        "before": {"id": row.key} if row.op == "d" else None,
        "after": None if row.op == "d" else {"id": row.key},
        "source": {
            "gtid": f"{UUID}:{row.gtid}",
            "file": FILE,
            "pos": row.end - SIZE,
            "row": row.row,
            "table": "goods",
            "ts_ms": 0,
        },
    }
    return SimpleNamespace(
        topic="p.shop.goods",
        partition=0,
        offset=offset,
        key=b"%d" % row.key,
        headers=row.headers,
        value=orjson.dumps(value),
    )


def source() -> tuple[Source, adapter.Places]:
    events, places = binlog(), adapter.Places()
    adapter.note(events, places)
    truth = truth_of((each for _, each in events), "shop")
    return Source(truth, {"goods": {3: {"id": 3}}}, f"{UUID}:1-2"), places


def found(rows: list[Row]) -> dict[str, int]:
    whole, places = source()
    topics = Topics()
    for offset, row in enumerate(rows):
        adapter.take(topics, message(row, offset), places)
    return {kind: len(what) for kind, what in compare(whole, topics).items()}


def test_each_record_has_the_name_of_its_row_and_nothing_is_wrong() -> None:
    _, places = source()
    topics = Topics()
    for offset, row in enumerate(MADE):
        adapter.take(topics, message(row, offset), places)
    assert [one.record.change_id for one in topics.rows] == [
        f"{UUID}:1#0",
        f"{UUID}:1#1",
        f"{UUID}:2#0/0",
        f"{UUID}:2#0/1",
        f"{UUID}:2#1",
    ]
    assert found(list(MADE)) == {}


def test_a_tombstone_is_no_record() -> None:
    topics = Topics()
    adapter.take(topics, SimpleNamespace(value=None), adapter.Places())
    assert topics.rows == []


CASES: dict[str, tuple[Callable[[list[Row]], list[Row]], dict[str, int]]] = {
    "lost": (lambda rows: rows[1:], {"lost": 1}),
    "lost at the end": (lambda rows: rows[:-1], {"lost": 1, "values": 1}),
    "repeated, and nothing else": (lambda rows: [*rows, *rows[:2]], {"repeated": 2}),
    "disordered": (lambda rows: [rows[1], rows[0], *rows[2:]], {"disordered": 1}),
    "invented": (lambda rows: [*rows, replace(rows[0], end=300)], {"invented": 1, "disordered": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_each_fault_is_found_by_its_kind(name: str) -> None:
    change, kinds = CASES[name]
    assert found(change(list(MADE))).items() >= kinds.items()
    assert found(change(list(MADE))).keys() - {"values"} == kinds.keys() - {"values"}


def test_what_comes_again_is_omitted_from_the_order() -> None:
    _, places = source()
    topics = Topics()
    for offset, row in enumerate((*MADE, *MADE)):
        adapter.take(topics, message(row, offset), places)
    assert [one.record.offset for one in once(topics.rows)] == [0, 1, 2, 3, 4]


def test_a_failed_task_is_reported_by_its_last_cause() -> None:
    trace = (
        "a.b.ConnectException: it ended\n\tat x\nCaused by: a.c.FencedException: too old\n\tat y"
    )
    values = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "FAILED", "trace": trace}]}
    assert debezium.state(values) == "FAILED"
    assert debezium.trouble(values) == "FencedException: too old"
    assert debezium.state(None) == ""


def test_the_table_has_each_fault_and_what_was_not_tried() -> None:
    name = "kafka.kill"
    outcome = PeerOutcome(
        name=name,
        variant="exactly-once",
        seed=7,
        how="recovered in 2.0 s",
        judged=True,
        went_on=2.0,
        helped=["FencedException: too old"],
        rows=1200,
        counts={"lost": 3, "values": 1},
    )
    page = f"| `{name}` | kill -9 | recovered in 0.2 s | 5,800 | 11 | nothing |"
    text = report.table([outcome], report.ours(page))
    row = next(line for line in text.splitlines() if line.startswith(f"| `{name}`"))
    assert row.startswith(f"| `{name}` | recovered in 0.2 s | recovered in 2.0 s | exactly-once |")
    assert "| no (1): FencedException: too old |" in row
    assert "| 3 | 0 | 0 | values 1 | 1,200 | 7 |" in row
    assert "`term`" in text.partition("Not tried")[2]
    assert "faults=1 clean=0 by-itself=0 lost=3" in text
    assert "kill.produce.rows" not in FAULTS
