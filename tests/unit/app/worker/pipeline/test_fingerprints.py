"""Fingerprints as the stage takes them: the same however its chunks are cut, and the same as a scan's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connectors.mysql.lookup.fingerprint import Fingerprint, FingerprintWindow, Sums, _Listener
from connectors.mysql.transaction_reader import TransactionReader
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.actions import TABLES, Action, Ddl, RowsOf
from tests.unit.app.worker.pipeline.history import CHARSETS, Source
from tests.unit.app.worker.pipeline.runs import (
    EVERYWHERE,
    NOWHERE,
    RULES,
    WHOLE,
    first_cursor,
    joined,
    run_stage,
    spec_of,
)

ORDERS, LOG, OTHER = TABLES
LONG: list[Action] = [
    RowsOf(OTHER, "c", ((1, 1),) * 3),
    RowsOf(LOG, "c", ((1, 1),) * 2),
    RowsOf(ORDERS, "u", ((1, 2),) * 4),
    RowsOf(LOG, "c", ((1, 1),)),
]
FILTERED: list[Action] = [RowsOf(OTHER, "d", ((1, 1),))]
STATEMENT: list[Action] = [Ddl("CREATE VIEW v AS SELECT 1")]
SHORT: list[Action] = [RowsOf(LOG, "c", ((1, 1),))]
CUTS: tuple[Sequence[bool], ...] = (NOWHERE, EVERYWHERE, (True, False), (False, False, True))


def described(source: Source, cut: Sequence[bool], *, max_bytes: int = WHOLE) -> list[Fingerprint]:
    cursor = first_cursor(source, gtids=False)
    spec = replace(spec_of(replace(RULES, max_bytes=max_bytes), cursor, {}), fingerprints=True)
    pieces = joined(run_stage(source.chunks(source.first, cut), cursor, spec))
    return [one for piece in pieces for one in piece.trace.fingerprints]


def scanned(source: Source, cut: Sequence[bool]) -> list[Fingerprint]:
    reader, found, before = TransactionReader(UUID, CHARSETS), list[Fingerprint](), Sums()
    for chunk in source.chunks(source.first, cut):
        listener = _Listener(FingerprintWindow(RULES.routes.captures))
        reader.read(chunk, listener)
        before = listener.prints.follow(before)
        found += listener.prints.done
    return found


def test_they_are_the_same_however_chunks_are_cut_and_transactions_published_in_parts() -> None:
    source = Source([LONG, FILTERED, SHORT, STATEMENT, LONG, SHORT], gtids=False)
    whole = described(source, NOWHERE)
    names = [one.digest for one in whole]
    assert len(names) == 5
    assert names[0] == names[3] != names[1] == names[4]
    assert [one.start for one in whole] == [source.starts[at] for at in (0, 2, 3, 4, 5)]
    for cut in CUTS:
        for max_bytes in (1, WHOLE):
            assert described(source, cut, max_bytes=max_bytes) == whole
        assert scanned(source, cut) == whole


def test_none_are_taken_where_none_are_kept() -> None:
    source = Source([LONG], gtids=False)
    cursor = first_cursor(source, gtids=False)
    pieces = run_stage(source.chunks(source.first, NOWHERE), cursor, spec_of(RULES, cursor, {}))
    assert [piece.trace.fingerprints for piece in pieces] == [[]] * len(pieces)
