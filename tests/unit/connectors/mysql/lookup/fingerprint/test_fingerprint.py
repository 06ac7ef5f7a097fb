"""Fingerprints: what master and standby write alike, and nothing else."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import EventType, Query
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.lookup.fingerprint.alignment import align, goes_on
from connectors.mysql.lookup.fingerprint.fingerprint import Fingerprint, Prints, Sums, remainder
from connectors.mysql.position import Coordinates

WRITE, DELETE = int(EventType.WRITE_ROWS), int(EventType.DELETE_ROWS)


def table(name: str = "t", database: str = "shop") -> TableMap:
    return cast(TableMap, SimpleNamespace(database=database, table=name))


def body(rows: bytes, *, table_id: int = 7, extra: bytes = b"", v1: bool = False) -> bytes:
    head = struct.pack("<IHH", table_id, 0, 1)
    if not v1:
        head += struct.pack("<H", 2 + len(extra)) + extra
    return head + b"\x02\xff" + rows


def transaction(pos: int = 4, *, us: int = 0) -> Transaction:
    made = Transaction("b.1", pos, None, 0, f"u:b.1:{pos}", us // 1000, 1)
    made.original_us = us
    return made


def digest(*events: tuple[TableMap, int, bytes]) -> str:
    prints = Prints(lambda database, _: database == "shop")
    for event in events:
        prints.rows(*event)
    prints.end(transaction(), 99)
    prints.follow(Sums())
    (found,) = prints.done
    return found.digest


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(0, 40))
def test_the_remainder_is_that_of_a_division(data: bytes, times: int) -> None:
    value = int.from_bytes(data * times, "big")
    assert remainder(value) == value % (2**127 - 1)


def test_the_remainder_of_multiples_of_the_prime_is_nothing() -> None:
    prime = 2**127 - 1
    assert [remainder(prime**n) for n in range(1, 40)] == [0] * 39


def test_table_ids_extra_bytes_and_the_events_first_version_make_no_difference() -> None:
    plain = digest((table(), WRITE, body(b"row")))
    assert digest((table(), WRITE, body(b"row", table_id=99, extra=b"ndb"))) == plain
    assert digest((table(), int(EventType.WRITE_ROWS_V1), body(b"row", v1=True))) == plain


@pytest.mark.parametrize(
    "other",
    [
        (table("u"), WRITE, body(b"row")),
        (table(), DELETE, body(b"row")),
        (table(), WRITE, body(b"roW")),
        (table(), WRITE, body(b"row\0")),
        (table(), WRITE, body(b"\0row")),
    ],
)
def test_another_table_kind_of_change_or_row_does(other: tuple[TableMap, int, bytes]) -> None:
    assert digest(other) != digest((table(), WRITE, body(b"row")))


def test_the_order_of_rows_does() -> None:
    first, second = (table(), WRITE, body(b"one")), (table(), WRITE, body(b"two"))
    assert digest(first, second) != digest(second, first)


def test_what_changes_no_captured_table_has_none() -> None:
    prints = Prints(lambda database, _: database == "shop")
    for pos, database in ((4, "mysql"), (50, "shop"), (90, "mysql")):
        prints.rows(table(database=database), WRITE, body(b"row"))
        prints.end(transaction(pos), pos + 10)
    prints.follow(Sums())
    assert [one.start.pos for one in prints.done] == [50]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("tu"), st.binary(min_size=1, max_size=40)), min_size=1),
    st.data(),
)
def test_it_is_the_same_however_rows_are_cut_into_events_and_chunks(
    changes: list[tuple[str, bytes]], data: Any
) -> None:
    whole = digest(*((table(name), WRITE, body(rows)) for name, rows in changes))
    prints, before = Prints(lambda *_: True), Sums()
    found: list[Fingerprint] = []
    for name, rows in changes:
        at = data.draw(st.integers(0, len(rows)))
        for piece in filter(None, (rows[:at], rows[at:])):
            if data.draw(st.booleans()):
                before = prints.follow(before)
                found, prints = found + prints.done, Prints(lambda *_: True)
            prints.rows(table(name), WRITE, body(piece))
    prints.end(transaction(), 99)
    prints.rows(table(), WRITE, body(b"the next one"))
    behind = prints.follow(before)
    assert [one.digest for one in found + prints.done] == [whole]
    last = Prints(lambda *_: True)
    last.end(transaction(), 120)
    last.follow(behind)
    assert last.done[0].digest == digest((table(), WRITE, body(b"the next one")))


def test_what_a_server_writes_behind_a_statement_is_not_of_it() -> None:
    def of(sql: str) -> str:
        prints = Prints(lambda *_: False)
        prints.statement(cast(Query, SimpleNamespace(database="shop", sql=sql)))
        prints.end(transaction(), 99)
        prints.follow(Sums())
        return prints.done[0].digest

    plain = of("CREATE TABLE t (id int)")
    assert of("CREATE TABLE t (id int) /* xid=123 */") == plain
    assert of("CREATE TABLE t (id int) /* generated by server */ /* xid=4 */") == plain
    assert of("CREATE TABLE t (id int) /* ours */") != plain


def prints_of(text: str, *, timed: bool = False, first: int = 0) -> list[Fingerprint]:
    """One for each letter; with times if they tell one letter from the same one later."""
    return [
        Fingerprint(
            digest=letter,
            original_us=(first + at + 1) if timed else 0,
            ts_ms=at,
            start=Coordinates("b.1", 100 * at + 4),
            end=Coordinates("b.1", 100 * at + 104),
        )
        for at, letter in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("kept", "found", "behind", "lacking", "lost", "own"),
    [
        ("bcd", "abcdef", "d", "", "", ""),
        ("bcd", "abcd", "d", "", "", ""),
        ("bcd", "abc", "c", "d", "", ""),
        ("bcd", "abdef", "d", "", "c", ""),
        ("bcd", "abcxyz", "c", "", "d", ""),
        ("bcd", "acd", "d", "", "b", ""),
        ("bcd", "abcxd", "d", "", "", "x"),
        ("bcd", "axyz", None, "bcd", "", ""),
        ("bcd", "", None, "bcd", "", ""),
    ],
)
def test_a_run_is_found_or_it_is_told_what_differs(
    kept: str, found: str, behind: str | None, lacking: str, lost: str, own: str
) -> None:
    aligned = align(prints_of(kept), prints_of(found))
    assert (aligned.behind and aligned.behind.digest) == behind
    told = [
        "".join(one.digest for one in run) for run in (aligned.lacking, aligned.lost, aligned.own)
    ]
    assert told == [lacking, lost, own]


def test_it_is_never_a_set() -> None:
    aligned = align(prints_of("bcd"), prints_of("abdce"))
    assert aligned.lost or aligned.own


def test_a_run_at_two_places_is_at_none_unless_times_tell_them_apart() -> None:
    assert align(prints_of("abab"), prints_of("abababab")).behind is None
    assert align(prints_of("abab"), prints_of("abababab")).places == 3
    kept, found = prints_of("abab", timed=True, first=2), prints_of("abababab", timed=True)
    aligned = align(kept, found)
    assert aligned.behind == found[5]
    # A server that does not tell them matches one that does.
    assert align(prints_of("bcd", timed=True), prints_of("abcd")).places == 1


@pytest.mark.parametrize(
    ("kept", "found", "before"),
    [
        ("abcd", "cd", 2),
        ("abcd", "cdef", 2),
        ("abcd", "bc", 1),
        ("abcd", "abcd", 0),
        ("abcd", "ce", None),
        ("abcd", "", None),
        ("abab", "ab", None),
    ],
)
def test_a_binlog_that_begins_within_the_run_goes_on_with_it(
    kept: str, found: str, before: int | None
) -> None:
    assert goes_on(prints_of(kept), prints_of(found)) == before
