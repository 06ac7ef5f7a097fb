from collections import Counter

import pytest

from demo.shop import ROLLED_BACK, SHARED_CUSTOMERS, Shopper, Transaction, bulk, correction, opening


def _planned(number: int = 1, *, transactions: int = 2000) -> list[Transaction]:
    shopper = Shopper(number)
    return [shopper.next(with_channel=n > transactions // 2) for n in range(transactions)]


def test_the_same_shopper_plans_the_same_load() -> None:
    assert _planned(transactions=200) == _planned(transactions=200)


def test_each_statement_has_an_argument_for_each_place() -> None:
    for transaction in [opening(), correction(), bulk(10), *_planned()]:
        for statement in transaction.statements:
            assert {len(row) for row in statement.rows} == {statement.sql.count("%s")}


def test_what_carries_the_mark_of_a_rollback_is_rolled_back() -> None:
    marked = 0
    for transaction in _planned():
        for statement in transaction.statements:
            if any(ROLLED_BACK in row for row in statement.rows):
                marked += 1
                assert not (statement.kept and transaction.commits)
    assert marked > 0


def test_the_load_has_every_kind_of_change() -> None:
    verbs = Counter(
        " ".join(statement.sql.split()[:2])
        for transaction in _planned()
        for statement in transaction.statements
    )
    assert {"INSERT INTO", "UPDATE order_items", "UPDATE customers", "DELETE FROM"} <= set(verbs)
    sql = {statement.sql for planned in _planned() for statement in planned.statements}
    assert any(text.startswith("UPDATE order_items SET line_no") for text in sql)
    assert any(text.startswith("UPDATE customers SET id") for text in sql)
    assert "ROLLBACK TO SAVEPOINT doubt" in sql


def test_the_new_column_is_used_once_it_is_there_and_not_before() -> None:
    early, late = _planned()[:1000], _planned()[1001:]
    assert not any("channel" in s.sql for planned in early for s in planned.statements)
    assert any("channel" in s.sql for planned in late for s in planned.statements)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_transaction_writes_to_one_shared_row_at_most(number: int) -> None:
    for transaction in _planned(number):
        shared = [
            row
            for statement in transaction.statements
            for row in statement.rows
            if any(isinstance(value, int) and value in SHARED_CUSTOMERS for value in row)
        ]
        assert len(shared) <= 1
