"""Rows that were read, among the changes of their key: each untrue one is found, and each true one is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.audit.topics.existing_rows import Effect, Entry, KeyHistory, Proof
from app.audit.verdict import FaultKind, Finding
from tables.history.present_columns import Described

AT = Finding(kind=FaultKind.UNTRUE, what="", topic="aq.shop.t", partition=1, offset=7)
ONE = Described(
    columns=("id", "v", "w"),
    types=("int", "varchar(9)", "int"),
    charsets=(None, "utf8mb4", None),
    primary_key=("id",),
    topic="aq.shop.t",
)
ADDED = replace(
    ONE, columns=(*ONE.columns, "x"), types=(*ONE.types, "int"), charsets=(*ONE.charsets, None)
)
CONVERTED = replace(ONE, types=("int", "varchar(9)", "varchar(20)"))
RENAMED = replace(ONE, columns=("id", "name", "w"), ids=(None, "v", None))
READ = "snapshot:one:shop.t"

Event = Entry | Effect


def image(v: str = "a", w: Any = 1, **more: Any) -> dict[str, Any]:
    return {"id": 5, "v": v, "w": w, **more}


def entry(seq: int, op: str, before: Any, after: Any, read: str | None, version: int) -> Entry:
    at = replace(AT, offset=seq, change_id=f"{read}:1#{seq}")
    return Entry(
        seq=seq, op=op, version=version, before=before, after=after, read=read, at=at
    )  # fmt: skip


def read(seq: int, after: Any, *, name: str = READ, version: int = 1) -> Entry:
    return entry(seq, "r", None, after, name, version)


def created(seq: int, after: Any, *, version: int = 1) -> Entry:
    return entry(seq, "c", None, after, None, version)


def updated(seq: int, before: Any, after: Any, *, version: int = 1) -> Entry:
    return entry(seq, "u", before, after, None, version)


def deleted(seq: int, before: Any, *, version: int = 1) -> Entry:
    return entry(seq, "d", before, None, None, version)


class Judged:
    """The faults, and the count of each proof."""

    def __init__(self, *events: Event, second: Described = ONE, statements: bool = True) -> None:
        self.faults: list[tuple[str, int | None, str]] = []
        history = KeyHistory({1: ONE, 2: second}, self._report, knows_statements=statements)
        for one in events:
            if isinstance(one, Effect):
                history.statement(one)
            else:
                history.take(one)
        history.close()
        self.proofs = {proof: count for proof, count in history.counts.items() if count}

    def _report(self, kind: FaultKind, at: Finding, what: str) -> None:
        self.faults.append((kind.value, at.offset, what))

    @property
    def kinds(self) -> list[tuple[str, int | None]]:
        """Kind and place of each fault."""
        return [(kind, offset) for kind, offset, _ in self.faults]


EARLIER, LATER, NONE = {Proof.EARLIER: 1}, {Proof.LATER: 1}, {Proof.NONE: 1}


@pytest.mark.parametrize(
    ("events", "proofs"),
    [
        ((created(1, image("a")), read(2, image("a"))), EARLIER),
        ((updated(1, image("z"), image("a")), read(2, image("a"))), EARLIER),
        ((deleted(1, image("z")), created(2, image("a")), read(3, image("a"))), EARLIER),
        ((read(2, image("a")), updated(3, image("a"), image("b"))), LATER),
        ((read(2, image("a")), deleted(3, image("a"))), LATER),
        ((read(2, image("a")),), NONE),
        ((), {}),
        ((created(1, image("a")),), {}),
    ],
)
def test_a_row_that_agrees_with_the_changes_around_it_is_true(
    events: tuple[Event, ...], proofs: dict[Proof, int]
) -> None:
    found = Judged(*events)
    assert (found.faults, found.proofs) == ([], proofs)


@pytest.mark.parametrize(
    ("events", "what"),
    [
        (
            (updated(1, image("a"), image("b")), read(2, image("a"))),
            "v has another value than in the record before it, seq 1",
        ),
        (
            (created(1, image(w=1)), updated(2, image(w=1), image(w=2)), read(3, image(w=1))),
            "w has another value than in the record before it, seq 2",
        ),
        ((deleted(1, image()), read(2, image())), "it was read, and did not exist after seq 1"),
        (
            (created(1, image()), Effect.EMPTIED, read(3, image())),
            "it was read, and did not exist after its table was emptied",
        ),
        (
            (read(2, image("a")), updated(3, image("b"), image("c"))),
            "v has another value than the change after it found, seq 3",
        ),
        (
            (read(2, image("a")), deleted(3, image("b"))),
            "v has another value than the change after it found, seq 3",
        ),
        (
            (read(2, image()), created(3, image())),
            "it was read, and did not exist before it was inserted by seq 3",
        ),
        (
            (created(1, image(w=1)), read(2, image(w=True))),
            "w has another value than in the record before it, seq 1",
        ),
    ],
)  # fmt: skip
def test_a_row_that_was_not_so_at_its_place_is_untrue(events: tuple[Event, ...], what: str) -> None:
    found = Judged(*events)
    place = next(one.seq for one in events if isinstance(one, Entry) and one.read is not None)
    assert found.faults == [("untrue", place, what)]
    assert sum(found.proofs.values()) == 1
    assert Proof.NONE not in found.proofs


def test_a_reading_returns_a_key_once_unless_a_statement_on_the_table_restarts_it() -> None:
    first, again = read(1, image()), read(2, image())
    assert Judged(first, again).kinds == [("repeated", 2)]
    assert Judged(first, read(2, image(), name="snapshot:two:shop.t")).kinds == []
    for effect in Effect:
        assert "repeated" not in dict(Judged(first, effect, again).kinds)
    assert Judged(first, read(2, image(), version=2)).kinds == []
    assert Judged(first, again, statements=False).kinds == []
    twice = replace(again, at=replace(again.at, change_id=first.at.change_id))
    assert Judged(first, twice, statements=False).kinds == [("repeated", 2)]


def test_two_readings_of_a_row_that_nothing_changed_agree() -> None:
    other = "snapshot:two:shop.t"
    assert Judged(read(1, image("a")), read(2, image("a"), name=other)).proofs == {Proof.NONE: 2}
    assert Judged(read(1, image("a")), read(2, image("b"), name=other)).kinds == [("untrue", 2)]
    change = updated(3, image("a"), image("b"))
    found = Judged(read(1, image("a")), read(2, image("a"), name=other), change)
    assert found.proofs == {Proof.LATER: 2}


@pytest.mark.parametrize(
    ("second", "after", "column"),
    [
        (ADDED, image("a", x=5), None),
        (ADDED, image("b", x=5), "v"),
        # A statement has converted its values.
        (CONVERTED, image("a", "1"), None),
        (CONVERTED, image("b", "1"), "v"),
        (RENAMED, {"id": 5, "name": "a", "w": 1}, None),
        (RENAMED, {"id": 5, "name": "b", "w": 1}, "name"),
    ],
)
def test_over_a_statement_the_columns_are_compared_that_it_left_as_they_were(
    second: Described, after: dict[str, Any], column: str | None
) -> None:
    found = Judged(created(1, image("a")), Effect.ALTERED, read(3, after, version=2), second=second)
    assert [what.partition(" ")[0] for _, _, what in found.faults] == ([column] if column else [])
    assert found.proofs == EARLIER


def test_after_a_statement_that_may_move_rows_nothing_is_known_of_them() -> None:
    for events in (
        (deleted(1, image()), Effect.UNKNOWN, read(3, image())),
        (read(1, image()), Effect.UNKNOWN, created(3, image())),
        (read(1, image()), Effect.EMPTIED, created(3, image())),
    ):
        found = Judged(*events)
        assert (found.faults, found.proofs) == ([], NONE)


def test_an_insert_after_a_read_proves_nothing_where_a_drop_may_be_between() -> None:
    found = Judged(read(1, image()), created(2, image()), statements=False)
    assert (found.faults, found.proofs) == ([], NONE)


def test_of_partial_images_the_columns_are_compared_that_they_have() -> None:
    partial = updated(2, {"id": 5}, {"id": 5, "v": "b"})
    assert Judged(read(1, image("a")), partial).proofs == NONE
    assert Judged(created(1, image("a")), partial, read(3, image("b"))).proofs == EARLIER
    assert Judged(created(1, image("a", 1)), partial, read(3, image("b", 2))).kinds == [
        ("untrue", 3)
    ]
    assert Judged(partial, read(3, image("b", 9))).proofs == EARLIER
    assert Judged(partial, read(3, image("a", 9))).kinds == [("untrue", 3)]
    # An image that was too large for its topic shows only that its row exists.
    large = updated(2, None, None)
    assert Judged(large, read(3, image())).proofs == NONE
    assert Judged(large, read(3, image()), deleted(4, image())).proofs == LATER


def test_a_row_of_nothing_but_its_key_is_true_where_it_exists() -> None:
    only = {"id": 5}
    assert Judged(created(1, only), read(2, only)).proofs == EARLIER
    assert Judged(read(2, only), deleted(3, only)).proofs == LATER


def removed(seq: int) -> Entry:
    return entry(seq, "d", {"id": 5}, None, READ, 1)


@pytest.mark.parametrize(
    ("events", "proofs"),
    [
        ((created(1, image()), removed(2)), NONE),
        ((removed(2),), NONE),
        ((deleted(1, image()), removed(2)), EARLIER),
        ((Effect.EMPTIED, removed(2)), EARLIER),
        ((created(1, image()), removed(2), created(3, image())), LATER),
        ((read(1, image()), removed(2), created(3, image())), {Proof.NONE: 1, Proof.LATER: 1}),
        # It came back without a trace, which only a reading shows.
        (
            (removed(2), read(3, image("a")), updated(4, image("a"), image("b"))),
            {Proof.NONE: 1, Proof.LATER: 1},
        ),
        ((created(1, image()), removed(2), read(3, image("z"))), {Proof.NONE: 2}),
    ],
)
def test_the_delete_of_a_row_that_no_change_shows_to_exist_is_true(
    events: tuple[Event, ...], proofs: dict[Proof, int]
) -> None:
    found = Judged(*events)
    assert (found.faults, found.proofs) == ([], proofs)


@pytest.mark.parametrize("change", [updated(3, image("a"), image("b")), deleted(3, image("a"))])
def test_the_delete_of_a_row_that_the_next_change_finds_is_untrue(change: Entry) -> None:
    found = Judged(created(1, image("a")), removed(2), change)
    what = "it was not read, and existed when it was changed by seq 3"
    assert found.faults == [("untrue", 2, what)]
    assert found.proofs == LATER
    # A statement that is not known may have made the row.
    assert Judged(removed(2), change, statements=False).faults == []
