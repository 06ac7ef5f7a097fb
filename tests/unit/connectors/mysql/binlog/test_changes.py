"""A transaction as it is stored with an event, and read again."""

from __future__ import annotations

import json

import pytest

from connectors.mysql.binlog.changes import Transaction


@pytest.mark.parametrize(("source", "number", "name"), [("u", 7, "u:7"), (None, 0, "u:b.1:4")])
def test_what_is_stored_of_a_transaction_makes_it_again(
    source: str | None, number: int, name: str
) -> None:
    one = Transaction("b.1", 4, source, number, name, 1_000, 9)
    one.thread = 12
    stored = {**json.loads(json.dumps(one.identity)), "format": 1}
    again = Transaction.of(one.start, stored)
    # What is known of a transaction only while it is read is not stored.
    kept = set(Transaction.__slots__) - {"original_us", "is_settled"}
    assert {each: getattr(again, each) for each in kept} == {
        each: getattr(one, each) for each in kept
    }
    assert len({getattr(one, each) for each in kept - {"gtid"}}) == len(kept) - 1
