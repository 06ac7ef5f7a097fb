"""Steps that change no definition: truncations, and operators' decisions without a definition."""

from __future__ import annotations

from dataclasses import replace

from tables.history.codec import record_key
from tables.history.record import Given
from tests.unit.tables.made import ORDERS, SHOP, at, begun, between, names_of, offset, table


def test_a_table_that_is_emptied_is_a_step_without_a_change() -> None:
    history = begun("orders")
    session = replace(SHOP, thread=12)
    for pos, sql in ((200, "CREATE TEMPORARY TABLE mine (id INT)"), (300, "TRUNCATE TABLE mine")):
        assert history.apply(at(pos), "shop", sql, session) is None
    before = history.now().tables()
    record = history.apply(at(400), "shop", "truncate `orders`", session)
    assert record is not None
    assert (record.number, record.type, record.outcome) == (1, "TRUNCATE TABLE", "resolved")
    assert (record.changes, record.tables, record.unchanged) == ((), (), (ORDERS,))
    assert (record.concerned, record.schemas) == ((ORDERS,), ("shop",))
    assert history.now().tables() == before
    assert history.apply(at(400), "shop", "truncate `orders`", session) is None
    other = history.apply(at(500), "shop", "TRUNCATE mine", replace(SHOP, thread=13))
    assert other is not None
    assert other.unchanged == (("shop", "mine"),)


def test_a_temporary_table_that_is_emptied_leaves_the_table_of_its_name_as_it_is() -> None:
    history = begun("orders")
    session = replace(SHOP, thread=12)
    for pos, sql, expected in (
        (200, "CREATE TEMPORARY TABLE orders (id INT)", ()),
        (300, "TRUNCATE TABLE orders", ()),
        (400, "ALTER IGNORE TABLE orders ADD UNIQUE (id)", ()),
        (500, "DROP TEMPORARY TABLE orders", ()),
        (600, "TRUNCATE TABLE orders", (ORDERS,)),
    ):
        found = history.apply_parsed(at(pos), history.parsed(sql, session))
        assert (found.emptied, found.unlogged, found.is_of_temporary) == (
            expected,
            (),
            pos in (300, 400, 500),
        )


def test_an_emptied_table_continues_by_what_was_given_for_it() -> None:
    history = begun("orders")
    assert history.apply(at(200), "shop", "ALTER TABLE orders FROBNICATE", SHOP)
    assert history.apply(at(300), "shop", "TRUNCATE orders", SHOP)
    assert history.apply(at(400), "shop", "ALTER TABLE orders ADD b INT", SHOP)
    history.resolve(ORDERS, table("a"), at(200), Given(by="anna", ts_ms=7, source="server"))
    assert names_of(history.now().find(*ORDERS)) == ["id", "a", "b"]
    assert {record.given for record in history.records[3:]} == {
        Given(by="anna", ts_ms=7, source="server")
    }


def test_what_was_said_of_a_table_is_noted_without_a_definition_and_changes_none() -> None:
    history = begun("orders")
    assert history.apply(at(200), "shop", "ALTER TABLE orders ADD a INT", SHOP)
    given = Given(by="anna", ts_ms=7, source="give-up")
    before = history.now().tables()
    (record,) = history.resolve(ORDERS, None, between(300), given)
    assert (record.kind, record.given, record.concerned) == ("resolution", given, (ORDERS,))
    assert history.now().tables() == before
    assert history.apply(at(400), "shop", "ALTER TABLE orders ADD b INT", SHOP)
    assert names_of(history.find(*ORDERS)) == ["id", "a", "b"]
    # A definition that is given at the same position does not replace it in the journal.
    definition, _ = history.resolve(ORDERS, table("z"), between(300), given)
    assert record_key(record) == record_key(definition) + b"/7"
    # Before what was noted there is nothing of it; after it, it stays.
    history.rollback(offset(350))
    assert [one.given for one in history.records] == [None, given, given]
    history.rollback(offset(250))
    assert [one.given for one in history.records] == [None]
