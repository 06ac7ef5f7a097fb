"""The source's changes within a window, identified as by the wire contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.audit.change_store import Store
from app.audit.truth.changes import Truth, read
from app.audit.truth.printed_events import events
from app.audit.truth.window import Bound, End, Side, Window
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from tables.rules.routes.routes import Routes
from tests.unit.app.audit.truth.test_printed_events import gtid, header, query

SOURCE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILE = header("Rotate to binlog.000001  pos: 4", at=4)
CAPTURED = Routes(prefix="aq", include=r"shop\..*", black=r"shop\.secret").captures


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as made:
        yield made


def rows(table: str, *values: int) -> str:
    result = [
        header(f"Table_map: `shop`.`{table}` mapped to number 5"),
        "# Columns(`id` INT NOT NULL)\n# Primary Key(id)\n",
        header("Write_rows: table id 5"),
        *(f"### INSERT INTO `shop`.`{table}`\n### SET\n###   @1={value}\n" for value in values),
    ]
    return "".join(result)


def transaction(number: int, *parts: str, at: int = 100) -> str:
    name = gtid(f"{SOURCE}:{number}", at=at)
    return "".join([name, query("BEGIN"), *parts, header("Xid = 1", end=at + 90)])


def truth(
    store: Store,
    *parts: str,
    begin: Bound | None = None,
    until: Bound | None = None,
    partial: tuple[str, int] | None = None,
    published: str = f"{SOURCE}:1-9",
) -> Truth:
    end = End(
        server_uuid="u",
        coordinates=Coordinates("binlog.000001", 5000),
        gtids=GtidSet.parse(published) if published else None,
        partial=partial,
    )
    window = Window(begin=begin, until=until, end=end, server_uuid="u")
    lines = "".join([FILE, *parts]).encode().splitlines(keepends=True)
    return read(events(iter(lines)), window, captures=CAPTURED, store=store)


def names(store: Store) -> list[str]:
    return [f"{store.ranked(one.rank).id.rpartition(':')[2]}#{one.ordinal}" for one in store.all()]


def test_rows_are_numbered_with_those_that_are_not_captured(store: Store) -> None:
    found = truth(store, transaction(1, rows("t", 7), rows("secret", 1, 2), rows("t", 8)))
    assert names(store) == ["1#0", "1#3"]
    assert dict(found.filtered) == {"shop.secret": 2}


def test_rows_that_were_undone_did_not_happen_and_keep_their_ordinals(store: Store) -> None:
    undone = query("BEGIN"), rows("t", 1, 2), query("ROLLBACK")
    saved = (
        rows("t", 3),
        query("SAVEPOINT `s`"),
        rows("t", 4, 5),
        query("ROLLBACK TO `S`"),
        rows("t", 6),
    )
    truth(store, gtid(f"{SOURCE}:1"), *undone, transaction(2, *saved, at=300))
    assert names(store) == ["2#0", "2#3"]
    assert [one.n for one in store.all()] == [0, 1]


def test_of_a_transaction_that_is_published_in_part_only_that_part_is_wanted(store: Store) -> None:
    cut = (f"{SOURCE}:2", 2)
    parts = (transaction(1, rows("t", 1)), transaction(2, rows("t", 2, 3, 4), at=300))
    truth(store, *parts, partial=cut, published=f"{SOURCE}:1")
    assert names(store) == ["1#0", "2#0", "2#1"]


def test_changes_past_the_cursor_or_outside_the_bounds_are_excluded(store: Store) -> None:
    parts = [transaction(n, rows("t", n), at=n * 100) for n in range(1, 6)]
    found = truth(
        store,
        *parts,
        begin=GtidSet.parse(f"{SOURCE}:1"),
        until=f"{SOURCE}:3",
        published=f"{SOURCE}:1-4",
    )
    assert names(store) == ["2#0", "3#0"]
    assert f"{SOURCE}:1" in found.before
    assert f"{SOURCE}:4" in found.after


def test_rows_of_a_prepared_transaction_are_of_its_commit(store: Store) -> None:
    xid = "X'61',X'',1"
    prepared = "".join(
        [gtid(f"{SOURCE}:1"), query(f"XA START {xid}"), rows("t", 7, 8), query(f"XA END {xid}"),
         header(f"XA PREPARE {xid}"), f"XA PREPARE {xid}\n/*!*/;\n"]
    )  # fmt: skip
    between = transaction(2, rows("t", 1), at=300)
    committed = gtid(f"{SOURCE}:3", at=500) + query(f"XA COMMIT {xid}")
    unknown = gtid(f"{SOURCE}:4", at=600) + query("XA COMMIT X'62',X'',1")
    found = truth(store, prepared, between, committed, unknown)
    assert names(store) == ["2#0", "3#0", "3#1"]
    assert found.undecided == {f"{SOURCE}:4"}


def test_rows_of_one_that_was_rolled_back_are_of_none(store: Store) -> None:
    xid = "X'61',X'',1"
    prepared = (
        gtid(f"{SOURCE}:1") + query(f"XA START {xid}") + rows("t", 7) + query(f"XA END {xid}")
    )
    prepared += header(f"XA PREPARE {xid}") + f"XA PREPARE {xid}\n/*!*/;\n"
    truth(store, prepared, gtid(f"{SOURCE}:2", at=500) + query(f"XA ROLLBACK {xid}"))
    assert names(store) == []


def test_an_xa_transaction_of_one_phase_is_committed_and_its_name_may_come_again(
    store: Store,
) -> None:
    xid = "X'61',X'',1"
    phases = [
        "".join(
            [gtid(f"{SOURCE}:{number}", at=number * 100), query(f"XA START {xid}"), rows("t", 7),
             query(f"XA END {xid}"), header(f"XA PREPARE {xid}"), f"XA COMMIT {xid} ONE PHASE\n/*!*/;\n"]
        )
        for number in (1, 2)
    ]  # fmt: skip
    found = truth(store, *phases)
    assert names(store) == ["1#0", "2#0"]
    assert found.undecided == set()


def test_rows_that_an_earlier_use_of_an_xid_left_are_not_those_of_the_next(store: Store) -> None:
    xid = "X'61',X'',1"
    begun = [
        gtid(f"{SOURCE}:{number}", at=number * 100) + query(f"XA START {xid}") + rows("t", 7)
        + query(f"XA END {xid}") + header(f"XA PREPARE {xid}") + f"XA PREPARE {xid}\n/*!*/;\n"
        for number in (1, 2)
    ]  # fmt: skip
    truth(store, *begun, gtid(f"{SOURCE}:3", at=500) + query(f"XA COMMIT {xid}"))
    assert names(store) == ["3#0"]


def test_without_gtids_a_transaction_is_named_by_its_place(store: Store) -> None:
    parts = gtid("ANONYMOUS", at=200) + query("BEGIN") + rows("t", 1) + header("Xid = 1")
    truth(store, parts, published="")
    assert store.transaction("u:binlog.000001:200") is not None


def test_without_a_gtid_the_last_of_the_set_decides_which_transactions_come_after_it() -> None:
    end = End(server_uuid="u", coordinates=Coordinates("b.000001", 5000), gtids=GtidSet())
    begin, last = GtidSet.parse(f"{SOURCE}:1-2"), Coordinates("b.000001", 200)
    window = Window(begin=begin, until=None, end=end, server_uuid="u", last_of_set=last)
    sides = [window.side("u:x", None, Coordinates("b.000001", at), 0) for at in (100, 300)]
    assert sides == [Side.BEFORE, Side.WITHIN]


@pytest.mark.parametrize(
    "sql",
    ["TRUNCATE shop.t", "truncate table `shop`.`t`", "TRUNCATE TABLE t", "/* why */ TRUNCATE `t`"],
)
def test_a_table_that_is_emptied_is_a_change_of_it(store: Store, sql: str) -> None:
    truth(store, gtid(f"{SOURCE}:1") + query(sql, "use `shop`/*!*/;\n"))
    (change,) = store.all()
    assert (change.kind, change.shape.name) == ("t", ("shop", "t"))
    assert next(store.statements())[1] == sql


def test_statements_on_accounts_are_none(store: Store) -> None:
    truth(
        store,
        gtid(f"{SOURCE}:1") + query("CREATE USER a"),
        gtid(f"{SOURCE}:2") + query("GRANT ALL ON *.* TO a"),
    )
    assert list(store.statements()) == []


def test_rows_after_what_cannot_be_printed_are_not_certain(store: Store) -> None:
    lost = rows("t", 1).replace("@1=1", "@1=!! Don't know how to handle column type=255")
    found = truth(store, transaction(1, rows("t", 5), lost))
    assert list(found.blurred.values()) == [(1, "shop.t")]
    assert dict(found.unread) == {"shop.t": 1}


@pytest.mark.parametrize("is_kept", [True, False])
def test_they_are_not_certain_where_their_xa_transaction_is_committed(
    store: Store, is_kept: bool
) -> None:
    xid = "X'61',X'',1"
    lost = rows("t", 7, 8).replace("@1=8", "@1=!! Don't know how to handle column type=255")
    prepared = gtid(f"{SOURCE}:1") + query(f"XA START {xid}") + lost + query(f"XA END {xid}")
    prepared += header(f"XA PREPARE {xid}") + f"XA PREPARE {xid}\n/*!*/;\n"
    end = gtid(f"{SOURCE}:2", at=500) + query(f"XA {'COMMIT' if is_kept else 'ROLLBACK'} {xid}")
    found = truth(store, prepared, end, transaction(3, rows("t", 1), at=700))
    ranks = [store.ranked(rank).id for rank in found.blurred]
    assert ranks == ([f"{SOURCE}:2"] if is_kept else [])
    assert names(store) == (["2#0", "3#0"] if is_kept else ["3#0"])
