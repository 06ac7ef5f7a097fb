"""The transactions of a chunk whose digests a cursor keeps."""

from __future__ import annotations

import pytest

from connectors.mysql.binlog.changes import Transaction
from connectors.mysql.binlog.events import Query
from connectors.mysql.lookup.fingerprint import KEPT, RecentTransactions, digest_of
from tests.unit.connectors.mysql.lookup.fingerprint.made import WRITE, body, table

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def transaction(number: int | None) -> Transaction:
    source = None if number is None else U
    return Transaction("b.1", 4, source, number or 0, f"{U}:{number}", 1000, 1)


def recents(*, is_cut: bool = False) -> RecentTransactions:
    return RecentTransactions(lambda database, _: database == "shop", is_cut)


def insert(into: RecentTransactions, number: int | None, *tables: str, size: int = 3) -> None:
    for name in tables:
        database, _, own = name.partition(".")
        into.rows(table(own, database), WRITE, body(bytes(size)))
    into.end(transaction(number), 99)


def numbers(found: RecentTransactions) -> list[int]:
    return [int(one.gtid.rpartition(":")[2]) for one in found.found()]


def test_the_last_few_with_captured_rows_are_kept_in_their_order() -> None:
    made = recents()
    for number in range(1, 30):
        insert(made, number, "shop.t" if number % 2 else "other.t")
    assert numbers(made) == [15, 17, 19, 21, 23, 25, 27, 29]
    assert KEPT == 8


def test_rows_that_are_not_captured_are_no_part_of_a_digest() -> None:
    one, other = recents(), recents()
    insert(one, 1, "shop.t", "other.t", "shop.u")
    insert(other, 1, "shop.t", "shop.u")
    assert one.found() == other.found()
    rows = [(table(name), WRITE, body(bytes(3))) for name in ("t", "u")]
    assert one.found()[0].digest == digest_of(transaction(1), list(rows))
    assert one.found()[0].digest != digest_of(transaction(1), list(rows[:1]))


@pytest.mark.parametrize(("is_cut", "kept"), [(True, [2]), (False, [1, 2])])
def test_a_transaction_that_began_in_an_earlier_chunk_or_continues_in_the_next_is_omitted(
    is_cut: bool, kept: list[int]
) -> None:
    made = recents(is_cut=is_cut)
    insert(made, 1, "shop.t")
    insert(made, 2, "shop.t")
    made.rows(table(), WRITE, body(b"row"))
    assert numbers(made) == kept


def test_what_has_no_gtid_or_is_large_is_omitted_and_a_statement_counts() -> None:
    made = recents()
    insert(made, None, "shop.t")
    insert(made, 2, "shop.t", size=300_000)
    made.statement(Query(1, "shop", "TRUNCATE t", 0, 0))
    made.end(transaction(3), 99)
    insert(made, 4)
    assert numbers(made) == [3]
