"""The audit: truncations and operators' definitions, beside statements' changes."""

from __future__ import annotations

import pytest

from tables.history.codec import history_records
from tables.history.record import Given
from tests.unit.app.operator.histories import DAY_MS, Asked, Story, story
from tests.unit.tables.made import ORDERS, UUID, at, between, table

ANNA = Given(by="anna", ts_ms=1_795_000_000_000, source="definition")
OTTO = Given(by="otto", ts_ms=ANNA.ts_ms + DAY_MS, source="give-up")


def described() -> Story:
    """A table that was emptied, could not be followed, was resolved, and was given up in the end."""
    made = story("TRUNCATE TABLE orders", "ALTER TABLE orders FROBNICATE")
    since = at(300, gtid=f"{UUID}:3")
    given = made.history.resolve(ORDERS, table("a"), since, ANNA)
    noted = made.history.resolve(ORDERS, None, between(900), OTTO)
    for record in (*given, *noted):
        made.entries += history_records(record)
    return made


def test_a_table_that_was_emptied_is_listed_with_who_did_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    audit = Asked(capsys, "audit")
    first = audit.text(described())[1]
    for word in ("b.000001:200", f"{UUID}:2", "app@%", "resolved", "TRUNCATE TABLE", "shop.orders"):
        assert word in first
    (one,) = audit.json(described(), "--type", "truncate", "--table", "shop.orders")["statements"]
    assert (one["type"], one["tables"], one["unchanged"], one["databases"]) == (
        "TRUNCATE TABLE",
        ["shop.orders"],
        ["shop.orders"],
        ["shop"],
    )


def test_what_an_operator_said_is_listed_with_who_when_and_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    audit = Asked(capsys, "audit")
    *_, given, noted = audit.text(described())
    for word in ("2026-11-18T11:06:40.000Z", "anna", "RESOLUTION (DEFINITION)", "b.000001:300"):
        assert word in given
    for word in ("2026-11-19T11:06:40.000Z", "otto", "RESOLUTION (GIVE-UP)", "b.000001:900"):
        assert word in noted
    both = audit.json(described(), "--type", "resolution")["statements"]
    assert [one["given"] for one in both] == [
        {"by": "anna", "time": "2026-11-18T11:06:40.000Z", "source": "definition"},
        {"by": "otto", "time": "2026-11-19T11:06:40.000Z", "source": "give-up"},
    ]
    assert [one["number"] for one in audit.json(described())["statements"]] == [1, 2, 3, 4]


def test_the_tables_own_list_has_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Asked(capsys, "history").text(described(), "shop.orders")
    assert [line.split("  ")[-1] for line in lines if line[:1].isdigit()] == [
        "TRUNCATE TABLE",
        "ALTER TABLE",
        "resolution (definition)",
        "resolution (give-up)",
    ]
    assert "    given by otto, 2026-11-19T11:06:40.000Z" in lines
