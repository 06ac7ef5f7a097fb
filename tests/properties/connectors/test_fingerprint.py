"""A fingerprint is the same however rows are cut into events and chunks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.lookup.fingerprint import Fingerprint, FingerprintWindow, Sums, remainder
from tests.unit.connectors.mysql.lookup.fingerprint.made import (
    WRITE,
    body,
    digest,
    table,
    transaction,
)


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 40))
def test_the_remainder_is_that_of_a_division(data: bytes, times: int) -> None:
    value = int.from_bytes(data * times, "big")
    assert remainder(value) == value % (2**127 - 1)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("tu"), st.binary(min_size=1, max_size=40)), min_size=1),
    st.data(),
)
def test_it_is_the_same_however_rows_are_cut_into_events_and_chunks(
    changes: list[tuple[str, bytes]], data: Any
) -> None:
    whole = digest(*((table(name), WRITE, body(rows)) for name, rows in changes))
    prints, before = FingerprintWindow(lambda *_: True), Sums()
    found: list[Fingerprint] = []
    for name, rows in changes:
        at = data.draw(st.integers(0, len(rows)))
        for piece in filter(None, (rows[:at], rows[at:])):
            if data.draw(st.booleans()):
                before = prints.follow(before)
                found, prints = found + prints.done, FingerprintWindow(lambda *_: True)
            prints.rows(table(name), WRITE, body(piece))
    prints.end(transaction(), 99)
    prints.rows(table(), WRITE, body(b"the next one"))
    behind = prints.follow(before)
    assert [one.digest for one in found + prints.done] == [whole]
    last = FingerprintWindow(lambda *_: True)
    last.end(transaction(), 120)
    last.follow(behind)
    assert last.done[0].digest == digest((table(), WRITE, body(b"the next one")))
