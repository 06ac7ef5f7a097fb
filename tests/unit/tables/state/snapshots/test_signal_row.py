"""Rows of the signal table, in the forms that Debezium's documentation has."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from tables.state.snapshots.request import SnapshotAction, SnapshotRequest
from tables.state.snapshots.signal_row import SignalRefused, requests_of, signal_in
from tables.state.snapshots.snapshot_progress import Name, SnapshotState, TableSnapshot

CAPTURED: tuple[Name, ...] = (("shop", "orders"), ("shop", "items"), ("crm", "people"))
READING = TableSnapshot(
    destination="shop", database="shop", table="orders", id="1", state=SnapshotState.READING
)


def row(kind: str, data: Any = None, **more: Any) -> str:
    text = data if data is None or isinstance(data, str) else json.dumps(data)
    return json.dumps({"id": "sig-1", "type": kind, "data": text, **more})


def made(
    text: str, *snapshots: TableSnapshot, started: Collection[Name] = ()
) -> list[SnapshotRequest]:
    signal = signal_in(text)
    assert signal is not None
    return list(
        requests_of(
            signal,
            "shop",
            captured=lambda: CAPTURED,
            snapshots={one.name: one for one in snapshots},
            started=started,
            name="r",
            by="a signal",
            now_ms=5,
        )
    )


def filtered(text: str) -> dict[str, Any]:
    return {
        "data-collections": ["shop.items"],
        "additional-conditions": [{"data-collection": "shop.items", "filter": text}],
    }


def test_a_start_is_of_the_captured_tables_that_match_wholly() -> None:
    found = made(row("execute-snapshot", {"data-collections": ["shop.item", r"shop\.o.*"]}))
    assert [one.name for one in found] == [("shop", "orders")]
    assert (found[0].action, found[0].by, found[0].id) == (
        SnapshotAction.START, "a signal", "r",
    )  # fmt: skip


def test_a_condition_is_of_its_table_only() -> None:
    data = {
        "data-collections": [r"shop\..*"],
        "type": "incremental",
        "additional-conditions": [{"data-collection": "shop.items", "filter": "color = 'blue'"}],
    }
    found = {one.name: one.where for one in made(row("execute-snapshot", data))}
    assert found == {("shop", "orders"): None, ("shop", "items"): "color = 'blue'"}


@pytest.mark.parametrize("comment", ["-- ! OR SLEEP(1)", "#! OR SLEEP(1)", "/* x */", "/*! */"])
def test_a_condition_has_no_comment(comment: str) -> None:
    (found,) = made(row("execute-snapshot", filtered(f"color = 'blue' {comment}")))
    assert found.where == "color = 'blue'"


def test_a_table_that_is_being_read_is_not_started_again() -> None:
    text = row("execute-snapshot", {"data-collections": [r"shop\..*"]})
    assert [one.name for one in made(text, READING)] == [("shop", "items")]
    done = replace(READING, state=SnapshotState.DONE)
    assert len(made(text, done)) == 2


def test_a_start_that_was_not_applied_yet_is_only_stopped() -> None:
    text, started = row("execute-snapshot", {"data-collections": [r"shop\..*"]}), {READING.name}
    done = replace(READING, state=SnapshotState.DONE)
    for known in ([], [done]):
        assert [one.name for one in made(text, *known, started=started)] == [("shop", "items")]
        found = made(row("stop-snapshot"), *known, started=started)
        assert [(one.name, one.action.value) for one in found] == [(READING.name, "stop")]
    for kind in ("pause", "resume"):
        assert made(row(f"{kind}-snapshot"), READING, started=started) == []


@pytest.mark.parametrize("kind", ["pause", "resume", "stop"])
def test_the_other_signals_are_of_what_is_being_read(kind: str) -> None:
    other = replace(READING, table="items", state=SnapshotState.DONE)
    found = made(row(f"{kind}-snapshot", {"type": "incremental"}), READING, other)
    assert [(one.name, one.action.value) for one in found] == [(READING.name, kind)]
    assert made(row(f"{kind}-snapshot", {"data-collections": ["crm.people"]}), READING) == []
    assert len(made(row(f"{kind}-snapshot"), READING)) == 1


def test_columns_may_have_any_case_and_other_signals_are_no_requests() -> None:
    text = json.dumps({"ID": "1", "TYPE": "stop-snapshot", "DATA": None})
    assert len(made(text, READING)) == 1
    assert signal_in(row("log", {"message": "hello"})) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps({"id": "1"}), "it has no column type"),
        (row("execute-snapshot", "{"), "its data cannot be read"),
        (row("execute-snapshot", {"data-collections": ["(a+)+$"]}), "character 1 of an expression"),
        (row("execute-snapshot", {"data-collections": [1]}), "its data cannot be read"),
        (row("execute-snapshot", "[" * 100_000), "its data cannot be read"),
        (row("execute-snapshot", {"data-collections": ["a"] * 2001}), "more than 2000 characters"),
        *(
            (row("execute-snapshot", filtered(text)), "a filter in its data is not one of =, <=>")
            for text in (
                "SLEEP(1000)",
                "id IN (SELECT ssn FROM crm.secret)",
                "1) OR (1=1",
                "(" * 1500,
                "BENCHMARK(1e9, 1)",
                "@@version LIKE '9%'",
                "v REGEXP '(a+)+$'",
            )
        ),
        (row("execute-snapshot", [1]), "its data cannot be read"),
        (row("execute-snapshot", {}), "names no data-collections"),
        (
            row("execute-snapshot", {"data-collections": ["a.b"], "additional-conditions": [{}]}),
            "its data cannot be read",
        ),
    ],
)
def test_what_cannot_be_understood_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(SignalRefused, match=reason) as refused:
        signal_in(text)
    # What a row says is in no line of the log.
    assert "crm" not in str(refused.value)
    assert "SLEEP" not in str(refused.value)
