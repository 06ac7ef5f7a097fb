"""The schema history: the latest version at or before a position, without duplicates."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from connectors.errors import HistoryTooShort, PositionUnknown
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import Server, Session, TableChange
from tables.history.codec import HistoryFold, checkpoint_records, history_records
from tables.history.history import SchemaHistory
from tables.history.position import AtGtid, AtTime
from tables.history.record import CheckpointPolicy, Dropped, Known, Unresolved
from tests.unit.tables.made import (
    LATIN,
    ORDERS,
    OTHER,
    SERVER,
    SHOP,
    UTF8,
    UUID,
    applied,
    at,
    begun,
    between,
    names_of,
    offset,
    table,
)


def three() -> SchemaHistory:
    """A table with one more column at 200, 300 and 400."""
    history = begun("orders")
    for pos, name in ((200, "a"), (300, "b"), (400, "c")):
        applied(history, pos, f"ALTER TABLE orders ADD {name} INT")
    return history


def test_a_statement_is_kept_with_all_that_the_tables_of_canal_have_columns_for() -> None:
    history = begun("orders")
    session = Session(database="shop", sql_mode=frozenset({"ANSI_QUOTES"}))
    position = replace(at(200, gtid=f"{UUID}:5"), user="app@%")
    record = history.apply(position, "shop", 'ALTER TABLE "orders" ADD a INT', session)
    assert record is not None
    assert (record.destination, record.number, record.outcome) == ("shop", 1, "resolved")
    assert (record.statement, record.type) == ('ALTER TABLE "orders" ADD a INT', "ALTER TABLE")
    assert (record.use_schema, record.schemas, record.tables) == ("shop", ("shop",), (ORDERS,))
    assert (record.session.sql_mode, record.position) == (session.sql_mode, position)
    (change,) = record.changes
    assert isinstance(change, TableChange)
    assert (names_of(change.old), names_of(change.new)) == (["id"], ["id", "a"])


def test_the_same_statement_at_the_same_place_changes_nothing_the_second_time() -> None:
    history = three()
    before = history.now().tables(), history.count
    for pos in (200, 300, 400):
        assert history.apply(at(pos), "shop", "ALTER TABLE orders ADD z INT", SHOP) is None
    assert (history.now().tables(), history.count) == before


def test_a_statement_that_the_checkpoint_holds_already_changes_nothing() -> None:
    history = begun("orders", position=between(100, gtids=f"{UUID}:1-9"))
    assert history.apply(at(90, gtid=f"{UUID}:9"), "shop", "DROP TABLE orders", SHOP) is None
    assert history.apply(at(95, gtid=f"{UUID}:10"), "shop", "DROP TABLE orders", SHOP) is not None


def test_a_transaction_that_comes_again_from_another_server_changes_nothing() -> None:
    history = begun("orders", position=between(100, gtids=f"{UUID}:1-9"))
    first, again = at(200, gtid=f"{UUID}:10"), at(7000, server=OTHER, gtid=f"{UUID}:10")
    assert history.apply(first, "shop", "ALTER TABLE orders ADD a INT", SHOP) is not None
    assert history.apply(again, "shop", "ALTER TABLE orders ADD a INT", SHOP) is None
    # A replica may commit in another order; what is not known by its own GTID is new.
    late = at(7100, server=OTHER, gtid=f"{OTHER}:3")
    assert history.apply(late, "shop", "ALTER TABLE orders ADD b INT", SHOP) is not None


def test_what_changes_no_table_is_no_record() -> None:
    history = begun("orders")
    assert history.apply(at(200), "shop", "CREATE FUNCTION f () RETURNS int RETURN 1", SHOP) is None
    assert history.apply(at(300), "shop", "ANALYZE TABLE orders", SHOP) is None
    assert history.count == 0


def test_a_position_has_the_latest_version_at_or_before_it() -> None:
    history = three()
    for pos, expected in ((100, 1), (200, 1), (201, 2), (300, 2), (399, 3), (401, 4), (9999, 4)):
        assert len(names_of(history.at(offset(pos)).find(*ORDERS))) == expected
    assert names_of(history.at(at(300)).find(*ORDERS)) == ["id", "a", "b"]
    assert names_of(history.at(AtTime(399)).find(*ORDERS)) == ["id", "a", "b"]


def test_positions_are_compared_by_the_files_number_and_not_by_its_name() -> None:
    history = begun("orders", position=between(4, file=999_998))
    for file, name in ((999_999, "a"), (1_000_000, "b")):
        assert history.apply(at(500, file=file), "shop", f"ALTER TABLE orders ADD {name} INT", SHOP)
    assert names_of(history.at(offset(600, file=999_999)).find(*ORDERS)) == ["id", "a"]
    assert names_of(history.at(offset(4, file=1_000_000)).find(*ORDERS)) == ["id", "a"]
    assert names_of(history.at(offset(501, file=1_000_000)).find(*ORDERS)) == ["id", "a", "b"]


def test_with_gtids_a_place_is_what_the_set_holds_on_any_server() -> None:
    history = begun("orders", position=between(100, gtids=f"{UUID}:1-4"))
    for number, name in ((5, "a"), (9, "b")):
        position = at(100 * number, gtid=f"{UUID}:{number}")
        assert history.apply(position, "shop", f"ALTER TABLE orders ADD {name} INT", SHOP)
    on_other = offset(4, server=OTHER, gtids=f"{UUID}:1-8")
    assert names_of(history.at(on_other).find(*ORDERS)) == ["id", "a"]
    assert names_of(history.at(AtGtid(f"{UUID}:9")).find(*ORDERS)) == ["id", "a", "b"]
    assert names_of(history.at(AtGtid(f"{UUID}:8")).find(*ORDERS)) == ["id", "a"]


def test_a_position_before_the_oldest_checkpoint_is_refused_by_name() -> None:
    history = three()
    for asked in (offset(99), AtTime(99), at(99)):
        with pytest.raises(HistoryTooShort, match=r"begins at b.000001:100"):
            history.at(asked)
    with_gtids = begun("orders", position=between(100, gtids=f"{UUID}:1-4"))
    with pytest.raises(HistoryTooShort, match=f"{UUID}:1-4"):
        with_gtids.at(offset(9999, gtids=f"{UUID}:1-3"))


def test_a_position_that_compares_with_nothing_is_refused_and_not_guessed() -> None:
    history = three()
    for asked in (offset(999, server=OTHER), AtGtid(f"{OTHER}:1"), at(5, server=OTHER)):
        with pytest.raises(PositionUnknown):
            history.at(asked)


def test_a_gtid_of_another_origin_is_not_taken_for_one_before_all_others() -> None:
    history = begun("orders", position=between(100, gtids=f"{UUID}:1-4"))
    assert history.apply(at(200, gtid=f"{UUID}:5"), "shop", "ALTER TABLE orders ADD a INT", SHOP)
    with pytest.raises(PositionUnknown):
        history.at(AtGtid(f"{OTHER}:1"))


def test_a_history_without_a_baseline_says_so() -> None:
    history = SchemaHistory()
    assert history.init("shop")
    assert not history.init("shop")
    with pytest.raises(HistoryTooShort, match="no baseline"):
        history.find(*ORDERS)
    assert not history.has_begun


def test_known_dropped_unresolved_and_unknown_are_distinguished() -> None:
    history = begun("orders", "log", "odd")
    applied(history, 200, "DROP TABLE log")
    applied(history, 300, "ALTER TABLE odd ADD x NO_SUCH_TYPE_AT_ALL")
    assert history.state("shop", "orders") == Known(table=table(), since=between(100))
    assert history.state("shop", "log") == Dropped(since=at(200))
    odd = history.state("shop", "odd")
    assert isinstance(odd, Unresolved)
    assert odd.since == odd.last == at(300)
    assert odd.reason
    assert history.state("shop", "never") is None
    for name in ("log", "odd", "never"):
        assert history.find("shop", name) is None
    assert isinstance(history.at(offset(150)).state("shop", "odd"), Known)


def test_a_rename_ends_one_name_and_begins_another() -> None:
    history = three()
    record = applied(history, 600, "RENAME TABLE orders TO bills")
    assert record.tables == (ORDERS, ("shop", "bills"))
    assert history.state(*ORDERS) == Dropped(since=at(600))
    assert names_of(history.find("shop", "bills")) == ["id", "a", "b", "c"]
    assert names_of(history.at(offset(600)).find(*ORDERS)) == ["id", "a", "b", "c"]


def test_databases_have_versions_too() -> None:
    history = begun()
    applied(history, 200, "CREATE DATABASE other CHARACTER SET latin1")
    applied(history, 300, "DROP DATABASE other")
    assert history.at(offset(150)).database("other") is None
    assert history.at(offset(250)).database("other") == LATIN
    assert history.now().databases() == {"shop": UTF8}


def test_names_are_one_in_any_case_where_the_server_takes_them_so() -> None:
    server = Server(version=(9, 7, 4), lower_case_table_names=1)
    history = begun("orders", server=server)
    applied(history, 200, "ALTER TABLE ORDERS ADD a INT")
    assert names_of(history.find("Shop", "Orders")) == ["id", "a"]
    assert begun("orders").find("shop", "Orders") is None


def test_tables_come_in_later_and_those_that_are_known_stay() -> None:
    history = three()
    news = {ORDERS: table("wrong"), ("wide", "items"): table("n")}
    (record,) = history.add_baseline(news, {"wide": LATIN, "shop": LATIN}, between(500))
    assert (record.kind, record.number) == ("baseline", 4)
    assert names_of(history.find("wide", "items")) == ["id", "n"]
    assert names_of(history.find(*ORDERS)) == ["id", "a", "b", "c"]
    assert history.now().databases() == {"shop": UTF8, "wide": LATIN}
    assert history.at(offset(499)).state("wide", "items") is None
    applied(history, 600, "ALTER TABLE wide.items ADD m INT")
    assert names_of(history.find("wide", "items")) == ["id", "n", "m"]


def test_many_tables_that_come_in_later_are_several_records() -> None:
    history = begun()
    columns = [f"a_column_with_a_long_name_{number}" for number in range(900)]
    news = {("wide", f"t{number}"): table(*columns) for number in range(20)}
    records = history.add_baseline(news, {}, between(500))
    assert [record.number for record in records] == list(range(1, len(records) + 1))
    assert len(records) > 1
    assert history.now().tables() == news


def test_a_new_baseline_starts_over_and_continues_counting() -> None:
    history = three()
    checkpoint = history.baseline({}, {}, between(4, file=9), SERVER)
    assert (checkpoint.head.count, checkpoint.head.number, checkpoint.head.begins) == (3, 2, True)
    assert history.state(*ORDERS) is None
    with pytest.raises(HistoryTooShort):
        history.at(offset(350))
    history.apply(at(50, file=9), "shop", "CREATE TABLE orders (id INT)", SHOP)
    assert history.count == 4


def test_a_view_stays_what_it_was() -> None:
    history = three()
    now, early = history.now(), history.at(offset(250))
    history.rollback(offset(150))
    applied(history, 200, "DROP TABLE orders")
    assert names_of(now.find(*ORDERS)) == ["id", "a", "b", "c"]
    assert names_of(early.find(*ORDERS)) == ["id", "a"]


def test_a_checkpoint_is_what_the_records_come_to() -> None:
    history = three()
    applied(history, 500, "ALTER TABLE orders ADD d NO_SUCH_TYPE_AT_ALL")
    applied(history, 600, "CREATE TABLE log (id INT)")
    applied(history, 700, "DROP TABLE log")
    early = history.checkpoint(between(350), made_ms=9)
    assert (early.head.count, early.head.position, early.head.made_ms) == (2, between(350), 9)
    assert {name: names_of(one) for name, one in early.tables.items()} == {ORDERS: ["id", "a", "b"]}
    late = history.checkpoint(between(800), made_ms=9)
    assert (late.head.count, late.tables) == (6, {})
    assert list(late.unresolved) == [ORDERS]
    assert late.dropped == {("shop", "log"): at(700)}


def test_a_checkpoint_may_be_given_how_many_records_are_before_it() -> None:
    history = three()
    elsewhere = between(4, server=OTHER)
    assert history.checkpoint(elsewhere, made_ms=0, count=3).head.count == 3
    assert names_of(history.at(offset(5, server=OTHER)).find(*ORDERS)) == ["id", "a", "b", "c"]


def test_tables_that_went_long_ago_are_not_in_a_checkpoint() -> None:
    history = begun("orders", policy=CheckpointPolicy(expire_ms=1000))
    applied(history, 200, "DROP TABLE orders")
    assert list(history.checkpoint(between(1200), made_ms=0).dropped) == [ORDERS]
    assert not history.checkpoint(between(1201), made_ms=0).dropped


def test_a_checkpoint_is_due_after_a_time_or_a_number_of_statements_or_on_another_server() -> None:
    history = begun("orders", policy=CheckpointPolicy(interval_ms=1000, statements=2))
    assert not history.is_due(10_000)
    assert history.is_due(10_000, OTHER)
    applied(history, 200, "ALTER TABLE orders ADD a INT")
    assert not history.is_due(1099)
    assert history.is_due(1100)
    applied(history, 300, "ALTER TABLE orders ADD b INT")
    assert history.is_due(0)
    history.checkpoint(between(400), made_ms=1100)
    assert not history.is_due(99_000)


def test_forgetting_what_is_before_a_checkpoint_leaves_what_is_after_it() -> None:
    history = three()
    head = history.checkpoint(between(250), made_ms=0).head
    history.forget_before(head.number)
    with pytest.raises(HistoryTooShort):
        history.at(offset(249))
    assert names_of(history.at(offset(250)).find(*ORDERS)) == ["id", "a"]
    assert names_of(history.find(*ORDERS)) == ["id", "a", "b", "c"]
    assert history.count == 3
    assert history.apply(at(300), "shop", "ALTER TABLE orders ADD b INT", SHOP) is None


def test_a_checkpoint_that_is_not_held_any_more_is_before_all_that_is() -> None:
    history = three()
    newest = history.checkpoint(between(250), made_ms=0).head.number
    history.forget_before(newest)
    history.forget_before(newest)
    history.forget_before(1)
    assert [head.number for head in history.checkpoints] == [newest]
    assert names_of(history.find(*ORDERS)) == ["id", "a", "b", "c"]


def test_a_server_that_gains_gtids_keeps_its_history() -> None:
    history = three()
    now = offset(500, gtids=f"{UUID}:1-2")
    assert names_of(history.at(now).find(*ORDERS)) == ["id", "a", "b", "c"]
    position = at(600, gtid=f"{UUID}:3")
    assert history.apply(position, "shop", "ALTER TABLE orders ADD d INT", SHOP)
    assert len(names_of(history.at(now).find(*ORDERS))) == 4
    assert len(names_of(history.at(offset(700, gtids=f"{UUID}:1-3")).find(*ORDERS))) == 5


def test_a_snapshot_is_text_that_rebuilds_each_database() -> None:
    history = begun("orders", "odd")
    applied(history, 200, "ALTER TABLE orders ADD a VARCHAR(9) CHARACTER SET latin1 NOT NULL")
    applied(history, 300, "ALTER TABLE odd ADD x NO_SUCH_TYPE_AT_ALL")
    texts = history.snapshot()
    assert list(texts) == ["shop"]
    rebuilt = begun()
    made = [part for part in texts["shop"].split(";\n") if "CREATE TABLE" in part]
    for pos, statement in enumerate(made, start=200):
        applied(rebuilt, pos, statement)
    assert rebuilt.now().tables() == history.now().tables()
    assert "-- shop.odd is not resolved" in texts["shop"]


def test_one_thread_continues_while_others_ask() -> None:
    history = begun("orders")
    faults: list[BaseException] = []

    def ask() -> None:
        try:
            while history.count < 300:
                now = history.now()
                known = now.find(*ORDERS)
                # A view is of one moment: each record adds one column.
                assert len(names_of(known)) == now.number + 1
                history.checkpoint(between(10**9), made_ms=0, count=now.number)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(300):
        applied(history, 200 + number, f"ALTER TABLE orders ADD c{number} INT")
    for thread in threads:
        thread.join()
    assert not faults


IF_NOT_EXISTS = "CREATE TABLE IF NOT EXISTS {} (x INT)"


def restarted(history: SchemaHistory, *, at_record: int | None = None) -> SchemaHistory:
    """The history as the journal has it: from the checkpoint of a record, or from its first one."""
    made = checkpoint_records(
        history.content(history.checkpoints[0])
        if at_record is None
        else history.checkpoint(between(5000), made_ms=9, count=at_record)
    )
    behind = [one for one in history.records if at_record is None or one.number > at_record]
    entries = [*made, *(entry for one in behind for entry in history_records(one))]
    fold = HistoryFold()
    for number, (key, value) in enumerate(entries):
        kind, _, *names = key.decode().split("/")
        fold.take(kind, names, StoredRecord(key, value, number))
    return fold.build(history.count)


@pytest.mark.parametrize("by_checkpoint", [False, True])
def test_views_are_known_after_a_restart(by_checkpoint: bool) -> None:
    history = begun("orders")
    history.baseline({}, {"shop": UTF8}, between(150), SERVER, views=[("shop", "old")])
    statements = (
        "CREATE VIEW made AS SELECT 1", "CREATE OR REPLACE VIEW made AS SELECT 2",
        "CREATE VIEW gone AS SELECT 1", "DROP VIEW gone",
        "CREATE VIEW moved AS SELECT 1", "RENAME TABLE moved TO here", "CREATE DATABASE d",
        "CREATE VIEW d.v AS SELECT 1", "DROP DATABASE d",
    )  # fmt: skip
    for number, statement in enumerate(statements):
        history.apply(at(200 + number * 100), "shop", statement, SHOP)
    views = {("shop", name) for name in ("old", "made", "here")}
    assert history.now().views() == views
    again = restarted(history, at_record=history.count if by_checkpoint else None)
    assert again.now().views() == views
    for number, (_, name) in enumerate(sorted(views)):
        assert (
            again.apply(at(8000 + number * 100), "shop", IF_NOT_EXISTS.format(name), SHOP) is None
        )
    for number, name in enumerate(("gone", "moved", "d.v")):
        assert again.apply(at(8500 + number * 100), "shop", IF_NOT_EXISTS.format(name), SHOP)


def test_a_rewind_past_a_statement_leaves_no_view() -> None:
    history = begun("orders")
    history.apply(at(200), "shop", "CREATE VIEW v AS SELECT 1", SHOP)
    history.apply(at(300), "shop", "DROP VIEW v", SHOP)
    history.rollback(offset(250))
    assert history.now().views() == {("shop", "v")}
    assert history.apply(at(400), "shop", IF_NOT_EXISTS.format("v"), SHOP) is None
    history.rollback(offset(150))
    assert history.now().views() == frozenset()
    assert history.apply(at(400), "shop", IF_NOT_EXISTS.format("v"), SHOP)


def test_a_table_under_the_name_of_a_view_is_none_once_the_server_shows_the_view() -> None:
    history = begun("orders")
    history.apply(at(200), "shop", IF_NOT_EXISTS.format("v"), SHOP)
    assert history.find("shop", "v") is not None
    (record,) = history.add_baseline({}, {}, between(500), [("shop", "v")])
    assert [(change.name, change.new) for change in record.changes] == [(("shop", "v"), None)]
    assert history.find("shop", "v") is None
    assert history.apply(at(600), "shop", IF_NOT_EXISTS.format("v"), SHOP) is None
    assert history.add_baseline({}, {}, between(700), [("shop", "v")]) == ()
