"""Tables of unknown definition: versions derived from them, and the repair by an operator's definition."""

from __future__ import annotations

import pytest

from connectors.errors import HistoryTooShort
from connectors.mysql.ddl.definition import TableChange, TableName
from tables.history.history import SchemaHistory
from tables.history.record import Dropped, Known, SchemaCheckpoint, SchemaRecord, Unresolved
from tests.unit.tables.made import (
    ORDERS,
    SHOP,
    applied,
    at,
    begun,
    between,
    names_of,
    offset,
    table,
)

ODD = "ALTER TABLE orders ADD odd NO_SUCH_TYPE_AT_ALL"
BILLS: TableName = ("shop", "bills")


def unresolved(*, pos: int = 200) -> SchemaHistory:
    history = begun("orders", "log")
    record = applied(history, pos, ODD)
    assert (record.outcome, record.unresolved, record.changes) == ("unresolved", (ORDERS,), ())
    return history


def test_one_table_is_quarantined_and_all_others_continue() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE log ADD a INT")
    assert names_of(history.find("shop", "log")) == ["id", "a"]
    assert isinstance(history.state(*ORDERS), Unresolved)
    assert isinstance(history.at(offset(200)).state(*ORDERS), Known)


def test_what_is_made_of_an_unknown_definition_is_not_known_either() -> None:
    history = unresolved()
    record = applied(history, 300, "ALTER TABLE orders ADD a INT")
    assert (record.outcome, record.unresolved) == ("unresolved", (ORDERS,))
    applied(history, 400, "ALTER TABLE orders ADD b INT")
    state = history.state(*ORDERS)
    assert isinstance(state, Unresolved)
    assert (state.since, state.last) == (at(200), at(400))


def test_a_copy_of_an_unknown_definition_is_not_known_either() -> None:
    history = unresolved()
    record = applied(history, 300, "CREATE TABLE bills LIKE orders")
    assert (record.outcome, record.unresolved) == ("unresolved", (BILLS,))


def test_a_table_that_is_not_known_may_go_by_another_name() -> None:
    history = unresolved()
    record = applied(history, 300, "RENAME TABLE orders TO bills")
    assert history.state(*ORDERS) == Dropped(since=at(300))
    assert isinstance(history.state(*BILLS), Unresolved)
    assert record.unresolved == (BILLS,)
    changed = applied(history, 400, "ALTER TABLE bills ADD a INT, RENAME TO orders")
    assert changed.unresolved == (ORDERS,)
    assert history.state(*BILLS) == Dropped(since=at(400))


def test_tables_that_are_swapped_keep_what_is_known_of_each() -> None:
    history = unresolved()
    applied(history, 300, "RENAME TABLE orders TO tmp, log TO orders, tmp TO log")
    assert names_of(history.find(*ORDERS)) == ["id"]
    assert isinstance(history.state("shop", "log"), Unresolved)


def test_a_name_that_only_served_to_swap_two_unknown_tables_is_gone() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE log ADD odd NO_SUCH_TYPE_AT_ALL")
    record = applied(history, 400, "RENAME TABLE orders TO tmp, log TO orders, tmp TO log")
    assert set(record.unresolved) == {ORDERS, ("shop", "log")}
    assert isinstance(history.state("shop", "tmp"), Dropped)


def test_dropping_it_ends_the_doubt() -> None:
    history = unresolved()
    record = applied(history, 300, "DROP TABLE orders")
    assert record.outcome == "resolved"
    assert history.state(*ORDERS) == Dropped(since=at(300))
    applied(history, 400, "CREATE TABLE orders (k INT)")
    assert names_of(history.find(*ORDERS)) == ["k"]


def test_making_it_again_ends_the_doubt() -> None:
    history = unresolved()
    applied(history, 300, "CREATE TABLE orders (k INT)")
    assert names_of(history.find(*ORDERS)) == ["k"]


def test_making_it_only_if_it_does_not_exist_does_not() -> None:
    history = unresolved()
    history.apply(at(300), "shop", "CREATE TABLE IF NOT EXISTS orders (k INT)", SHOP)
    assert isinstance(history.state(*ORDERS), Unresolved)


def test_a_given_definition_holds_from_its_place_on() -> None:
    history = unresolved()
    (record,) = history.resolve(ORDERS, table("odd"), at(200))
    assert (record.kind, record.number, record.amends, record.current) == ("resolution", 2, 1, True)
    assert history.state(*ORDERS) == Known(table=table("odd"), since=at(200))
    assert names_of(history.at(at(200)).find(*ORDERS)) == ["id", "odd"]
    assert names_of(history.at(offset(200)).find(*ORDERS)) == ["id"]
    applied(history, 300, "ALTER TABLE orders ADD a INT")
    assert names_of(history.find(*ORDERS)) == ["id", "odd", "a"]


def test_statements_after_it_are_tried_again() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE orders ADD a INT")
    applied(history, 400, "RENAME TABLE orders TO bills")
    applied(history, 500, "ALTER TABLE bills ADD b INT")
    made = history.resolve(ORDERS, table("odd"), at(200))
    assert [record.number for record in made] == [5, 6, 7, 8, 9]
    assert names_of(history.find(*BILLS)) == ["id", "odd", "a", "b"]
    assert history.state(*ORDERS) == Dropped(since=at(400))
    for pos, name, expected in (
        (250, ORDERS, ["id", "odd"]),
        (350, ORDERS, ["id", "odd", "a"]),
        (450, BILLS, ["id", "odd", "a"]),
    ):
        assert names_of(history.at(offset(pos)).find(*name)) == expected


@pytest.mark.parametrize("is_read", [False, True])
def test_a_table_that_the_history_never_had_is_known_once_it_is_given(is_read: bool) -> None:
    history = begun("log")
    if is_read:
        # The catalog of the statements to come exists already.
        applied(history, 150, "ALTER TABLE log ADD a INT")
    history.resolve(ORDERS, table("a"), at(200))
    assert history.now().tables()[ORDERS] == table("a")
    made = history.checkpoint(between(250), made_ms=0)
    assert made.tables[ORDERS] == table("a")
    assert ORDERS not in history.at(offset(150)).tables()
    record = applied(history, 300, "ALTER TABLE orders ADD b INT")
    assert record.outcome == "resolved"
    assert names_of(history.find(*ORDERS)) == ["id", "a", "b"]


def test_a_later_statement_that_cannot_be_resolved_ends_it() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE orders ADD odder NO_SUCH_TYPE_AT_ALL")
    (record,) = history.resolve(ORDERS, table("odd"), at(200))
    assert not record.current
    assert names_of(history.at(offset(250)).find(*ORDERS)) == ["id", "odd"]
    assert isinstance(history.state(*ORDERS), Unresolved)
    history.resolve(ORDERS, table("odd", "odder"), at(300))
    assert names_of(history.find(*ORDERS)) == ["id", "odd", "odder"]


def test_a_table_recreated_since_stays_as_it_is() -> None:
    history = unresolved()
    applied(history, 300, "DROP TABLE orders")
    applied(history, 400, "CREATE TABLE orders (k INT)")
    (record,) = history.resolve(ORDERS, table("odd"), at(200))
    assert not record.current
    assert names_of(history.at(offset(250)).find(*ORDERS)) == ["id", "odd"]
    assert names_of(history.find(*ORDERS)) == ["k"]


def test_a_definition_may_be_corrected_again() -> None:
    history = unresolved()
    history.resolve(ORDERS, table("wrong"), at(200))
    history.resolve(ORDERS, table("right"), at(200))
    assert names_of(history.find(*ORDERS)) == ["id", "right"]


def test_a_known_table_may_be_corrected_where_its_rows_showed_another() -> None:
    history = begun("orders")
    applied(history, 200, "ALTER TABLE orders ADD a INT")
    history.resolve(ORDERS, table("a", "hidden"), at(250))
    assert names_of(history.at(offset(240)).find(*ORDERS)) == ["id", "a"]
    assert names_of(history.at(offset(251)).find(*ORDERS)) == ["id", "a", "hidden"]
    applied(history, 300, "ALTER TABLE orders ADD b INT")
    assert names_of(history.find(*ORDERS)) == ["id", "a", "hidden", "b"]


def test_statements_after_a_correction_are_applied_again_to_its_definition() -> None:
    history = begun("orders")
    applied(history, 300, "ALTER TABLE orders ADD b INT")
    applied(history, 400, "ALTER TABLE orders DROP b, ADD c INT")
    history.resolve(ORDERS, table("hidden"), at(250))
    assert names_of(history.at(offset(251)).find(*ORDERS)) == ["id", "hidden"]
    assert names_of(history.at(offset(350)).find(*ORDERS)) == ["id", "hidden", "b"]
    assert names_of(history.find(*ORDERS)) == ["id", "hidden", "c"]


def test_a_statement_that_comes_again_finds_what_was_given_for_it() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE orders ADD a INT")
    history.resolve(ORDERS, table("odd"), at(200))
    rewound = history.rollback(offset(150))
    assert (rewound.count, rewound.records) == (0, ())
    record = applied(history, 200, ODD)
    assert record.outcome == "resolved"
    (change,) = record.changes
    assert isinstance(change, TableChange)
    assert (names_of(change.old), names_of(change.new)) == (["id"], ["id", "odd"])
    applied(history, 300, "ALTER TABLE orders ADD a INT")
    assert names_of(history.find(*ORDERS)) == ["id", "odd", "a"]


def test_going_back_to_a_place_after_a_given_definition_keeps_it() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE log ADD a INT")
    history.resolve(ORDERS, table("odd"), at(200))
    rewound = history.rollback(offset(250))
    (record,) = rewound.records
    assert (rewound.count, record.number, record.current) == (1, 2, True)
    assert names_of(history.find(*ORDERS)) == ["id", "odd"]
    assert applied(history, 300, "ALTER TABLE log ADD a INT").number == 3


def test_after_going_back_nothing_after_a_given_definition_ends_it() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE orders ADD a INT")
    first, second = history.resolve(ORDERS, table("odd"), at(200))
    assert (first.current, second.current) == (False, True)
    (record,) = history.rollback(offset(250)).records
    assert (record.amends, record.current) == (1, True)


def begun_at(checkpoint: SchemaCheckpoint, *records: SchemaRecord) -> SchemaHistory:
    """The history as a run finds it that begins with a checkpoint."""
    history = SchemaHistory()
    history.load(checkpoint, records, resolutions=records)
    return history


def test_a_checkpoint_from_before_a_definition_was_given_has_it_too() -> None:
    history = unresolved()
    checkpoint = history.checkpoint(between(450), made_ms=0)
    later = begun_at(checkpoint, *history.resolve(ORDERS, table("odd"), at(200)))
    assert names_of(later.find(*ORDERS)) == ["id", "odd"]


def test_what_was_given_for_places_still_to_come_is_in_a_checkpoint() -> None:
    history = unresolved()
    history.resolve(ORDERS, table("odd"), at(200))
    history.rollback(offset(150))
    checkpoint = history.checkpoint(between(160), made_ms=0)
    assert [record.position for record in checkpoint.given] == [at(200)]
    later = begun_at(checkpoint)
    assert applied(later, 200, ODD).outcome == "resolved"
    assert names_of(later.find(*ORDERS)) == ["id", "odd"]
    assert later.checkpoint(between(300), made_ms=0).given == ()


def test_a_definition_for_a_table_that_was_recreated_leaves_a_later_checkpoint_as_it_is() -> None:
    history = unresolved()
    applied(history, 300, "DROP TABLE orders")
    applied(history, 400, "CREATE TABLE orders (k INT)")
    checkpoint = history.checkpoint(between(450), made_ms=0)
    later = begun_at(checkpoint, *history.resolve(ORDERS, table("odd"), at(200)))
    assert names_of(later.find(*ORDERS)) == ["k"]


def test_a_statement_out_of_reach_is_refused_by_name() -> None:
    history = unresolved()
    applied(history, 300, "ALTER TABLE orders ADD a INT")
    head = history.checkpoint(between(400), made_ms=0).head
    history.forget_before(head.number)
    with pytest.raises(HistoryTooShort):
        history.resolve(ORDERS, table("odd"), at(200))


def test_the_last_unresolved_statement_may_be_repaired_when_only_the_checkpoint_has_it() -> None:
    history = unresolved()
    head = history.checkpoint(between(400), made_ms=0).head
    history.forget_before(head.number)
    applied(history, 500, "ALTER TABLE orders ADD a INT")
    made = history.resolve(ORDERS, table("odd"), at(200))
    assert [record.amends for record in made] == [1, 2]
    assert names_of(history.find(*ORDERS)) == ["id", "odd", "a"]
    assert names_of(history.at(offset(450)).find(*ORDERS)) == ["id", "odd"]
