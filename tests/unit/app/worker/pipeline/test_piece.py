"""Nothing of a piece is lost where it is joined to the one before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import Any, cast

from app.worker.pipeline.piece import (
    Counts,
    DeadLetter,
    Entered,
    Piece,
    QuarantinedTable,
    SignalRow,
    SourceTrace,
    TableChanges,
    UnloggedChange,
    add_run,
)
from connectors.kafka.record_batches import FinishedBatch
from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint import KEPT, Fingerprint, Recent
from connectors.mysql.position import Coordinates
from tables.history.position import HistoryPosition
from tables.state.cursor import FileHead
from tests.made import SERVER, START

END = Coordinates("b.000001", 900)
PLACE = HistoryPosition(server_uuid=SERVER, start=START, end=END, gtid=None, ts_ms=1)
LETTER = DeadLetter("shop.t", None, "b.000001:4", 1, "bad")


def full() -> Piece:
    anything: Any = object()
    landmark: Landmark = anything
    print_ = Fingerprint(digest="d", original_us=0, ts_ms=1, start=START, end=END)
    return Piece(
        batches=[FinishedBatch("aq.shop.t", 0, b"", 1)],
        partitions={"aq.shop.t": 1},
        records=1,
        size=2,
        tables=TableChanges(
            versions=[anything],
            history=[anything],
            quarantined=[QuarantinedTable(name=("shop", "t"), why="odd", since=PLACE)],
            unlogged=[
                UnloggedChange(("shop", "t"), "DROP PARTITION", None, Coordinates("b.000001", 4))
            ],
        ),
        notes=[(b"key", b"value")],
        dead_letters=[LETTER],
        trace=SourceTrace(
            gtids=[(SERVER, 1, 3)],
            decisions=[("xid", None)],
            fingerprints=[print_],
            landmark=landmark,
            head=FileHead(file="b.000001", created=1),
            recent=[Recent(f"{SERVER}:3", "d", 1)],
        ),
        entered=[Entered(1)],
        signals=[SignalRow('{"id":"1"}')],
        counts=Counts(
            rows=Counter({"c": 1}),
            events=Counter({(30, "decoded"): 1}),
            statements=Counter({("d", "t"): 1}),
            parked=Counter({("d", "t"): 1}),
            oversize=Counter({"key_only": 1}),
        ),
        coordinates=END,
        seq=1,
        version_count=1,
        committed_ms=1,
    )


def empty() -> Piece:
    return Piece(coordinates=START, seq=0, version_count=0)


def test_a_piece_that_only_moves_and_the_one_after_it_are_that_one() -> None:
    joined, later = empty(), full()
    unset = [
        field.name
        for part in (later, later.tables, later.trace, later.counts)
        for field in fields(part)
        if not getattr(part, field.name)
    ]
    assert unset == ["resume", "error"]
    joined.absorb(later)
    assert joined == later


def test_a_piece_keeps_its_own_where_the_one_after_it_has_none() -> None:
    joined, own = full(), full()
    joined.absorb(empty())
    own.coordinates, own.seq, own.version_count = START, 0, 0
    own.tables, own.trace.landmark = joined.tables, joined.trace.landmark
    assert joined == own


def test_a_row_of_the_signal_table_is_after_the_statements_that_come_before_it() -> None:
    joined, anything = empty(), cast(Any, object())
    for name, records in (("a", 2), ("b", 0), ("c", 1)):
        # The statement of a portion is at its end.
        later = empty()
        later.signals, later.tables.history = [SignalRow(name)], [anything] * records
        joined.absorb(later)
    assert joined.signals == [SignalRow("a", 0), SignalRow("b", 2), SignalRow("c", 2)]
    before = empty()
    before.tables.history = [anything]
    before.absorb(joined)
    assert [one.statements for one in before.signals] == [1, 3, 3]


def test_only_the_last_recent_transactions_are_kept_and_runs_of_gtids_are_joined() -> None:
    joined = full()
    for number in range(4, 20):
        later = empty()
        later.trace.gtids = [(SERVER, number, number)]
        later.trace.recent = [Recent(f"{SERVER}:{number}", "d", 1)]
        joined.absorb(later)
    assert joined.trace.gtids == [(SERVER, 1, 19)]
    assert [one.gtid for one in joined.trace.recent] == [
        f"{SERVER}:{number}" for number in range(20 - KEPT, 20)
    ]


def test_a_run_that_does_not_follow_the_last_is_one_of_its_own() -> None:
    runs = [(SERVER, 1, 3)]
    for run in ((SERVER, 5, 5), ("other", 6, 6), ("other", 7, 9)):
        add_run(runs, run)
    assert runs == [(SERVER, 1, 3), (SERVER, 5, 5), ("other", 6, 9)]
