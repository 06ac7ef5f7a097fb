"""Statements that change rows: passed by where no captured table changed, else refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.worker.pipeline.gather.captured_tables import CapturedTables, Unpublished
from app.worker.pipeline.gather.gather import Gathering
from app.worker.pipeline.gather.items import Ddl, Gathered, Rows
from app.worker.pipeline.gather.statement_changes import StatementJudge
from connectors.errors import AqueductError, RowUnreadable, StatementBasedChange, UnsupportedEvent
from connectors.mysql.binlog.events import EventType, Query
from connectors.mysql.binlog.statement_kind import Kind
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server
from connectors.mysql.transaction_reader import TransactionReader
from connectors.mysql.types.registry import FieldType, MappedColumn
from tables.history.resolved_statement import ResolvedStatement
from tables.rules.routes.routes import Routes
from tests.made import SERVER, START, chunk_of, gtid, int_rows, int_table, query, table_map, xid
from tests.unit.app.worker.pipeline.runs import RULES
from tests.unit.tables.made import table

CHARSETS, OURS = Charsets({}, {}), Server(version=(8, 4, 0))
BEGIN, MAP = query("BEGIN"), table_map(int_table())
MAP_AND_ROWS = MAP, int_rows(int_table(), 5)


def book(include: str) -> CapturedTables:
    known = {("shop", "lost"): Unpublished.GIVEN_UP}
    return CapturedTables(Routes(prefix="aq", include=include), CHARSETS, server=OURS, known=known)


def passing(include: str = r"shop\..*", trusted: str = "") -> StatementJudge:
    return StatementJudge(book(include), OURS, trusted)


def change(sql: str, *databases: str, database: str = "shop") -> Query:
    names = b"".join(name.encode() + b"\0" for name in databases)
    status = bytes([12, len(databases)]) + names if databases else b""
    return Query(thread=1, database=database, sql=sql, sql_mode=0, error_code=0, status=status)


def refused(query: Query, **more: str) -> StatementBasedChange:
    with pytest.raises(StatementBasedChange) as caught:
        passing(**more).passed(query)
    return caught.value


def test_what_only_used_databases_without_captured_tables_is_passed_by() -> None:
    assert passing().passed(change("INSERT INTO a.t VALUES (1)", "a")) == {("a", "t")}
    assert passing().passed(change("INSERT INTO a.t SELECT * FROM b.u", "A", "b")) == {("a", "t")}


@pytest.mark.parametrize("databases", [(), ("a", "shop"), ("b",), ("",)])
def test_what_may_have_used_others_is_refused_with_its_tables(databases: tuple[str, ...]) -> None:
    error = refused(change("INSERT INTO a.t VALUES ('secret')", *databases))
    assert error.context["tables"] == "a.t"
    assert "filter.statements" in str(error)
    assert "secret" not in str(error)


def test_a_tools_own_table_or_one_that_the_settings_name_may_be_filled_from_captured_ones() -> None:
    checksum = "REPLACE INTO percona.checksums SELECT COUNT(*) FROM shop.orders"
    assert passing().passed(change(checksum, "percona", "shop")) == {("percona", "checksums")}
    named = change("INSERT INTO a.t SELECT id FROM shop.orders", "a", "shop")
    assert passing(trusted=r"b\.u, a\..*").passed(named) == {("a", "t")}


@pytest.mark.parametrize("trusted", ["", r".*\..*"])
def test_a_captured_table_is_named_whatever_the_settings_trust(trusted: str) -> None:
    sql = "UPDATE a.t, orders SET n = 'secret'"
    error = refused(change(sql, "a", "shop"), trusted=trusted)
    assert error.context["tables"] == "shop.orders"
    assert "secret" not in str(error)


def test_a_table_that_was_given_up_is_no_captured_one() -> None:
    assert passing(trusted=r"shop\.lost").passed(change("DELETE FROM lost")) == {("shop", "lost")}


def test_a_statement_that_is_not_understood_is_refused_without_its_data() -> None:
    error = refused(change("CALL f('secret')", "a"))
    assert "not certain" in str(error)
    assert error.context["database"] == "shop"
    assert "secret" not in str(error)


def gathered(*events: bytes, include: str, context: tuple[bytes, ...] = ()) -> Gathered:
    """A decoder's result for a chunk."""
    gathering = Gathering(book(include), RULES, passing=passing(include))
    chunk = chunk_of(*events, context=context, context_start=START if context else None)
    TransactionReader(SERVER, CHARSETS).read(chunk, gathering)
    return gathering.gathered


def test_a_statement_that_is_passed_by_is_counted_and_moves_the_cursor() -> None:
    sql = "INSERT INTO mysql.rds_heartbeat2 VALUES (1)"
    found = gathered(gtid(5), BEGIN, query(sql), query(sql), xid(), include=r"shop\..*")
    assert found.statements == {("mysql", "rds_heartbeat2"): 2}
    assert found.filtered == {EventType.QUERY: 2}
    assert found.gtids.found() == [(SERVER, 5, 5)]
    assert found.end_pos is not None
    assert [type(item).__name__ for item in found.items] == ["End"]


def test_what_cannot_be_taken_back_names_the_captured_tables_of_the_rows() -> None:
    events = gtid(5), BEGIN, *MAP_AND_ROWS, query("ROLLBACK TO `s`"), xid()
    with pytest.raises(UnsupportedEvent) as refused:
        gathered(*events, include=r"shop\..*")
    assert refused.value.context["tables"] == "shop.t"
    assert refused.value.context["gtid"] == f"{SERVER}:5"
    assert gathered(*events, include=r"other\..*").gtids.found() == [(SERVER, 5, 5)]


@pytest.mark.parametrize("sql", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_rows_that_are_taken_back_did_not_happen(sql: str) -> None:
    saved = query("SAVEPOINT `S`")
    events = gtid(5), BEGIN, saved, *MAP_AND_ROWS, query(sql), xid()
    ends = events if sql != "ROLLBACK" else events[:-1]
    for include in (r"other\..*", r"shop\..*"):
        found = gathered(*ends, include=include)
        assert found.gtids.found() == [(SERVER, 5, 5)]
        assert found.values == 0
        assert [type(item).__name__ for item in found.items] == ["End"]


@pytest.mark.parametrize(
    ("end", "keys"),
    [
        ((xid(),), ["1", "2", "3"]),
        ((query("ROLLBACK TO s"), *MAP_AND_ROWS, xid()), ["1", "4"]),
        ((query("ROLLBACK"),), []),
    ],
)
def test_rows_that_did_not_happen_take_no_place_of_those_that_a_select_returned(
    monkeypatch: pytest.MonkeyPatch, end: tuple[bytes, ...], keys: list[str]
) -> None:
    seen = list[object]()

    def keys_of(_: object, rows: object) -> list[str]:
        """As of a table with a key, which the definition of these events lacks."""
        if all(one is not rows for one in seen):
            seen.append(rows)
        return [str(number) for number, one in enumerate(seen, 1) if one is rows]

    monkeypatch.setattr("app.worker.pipeline.gather.gather.changed_keys", keys_of)
    name = ("shop", "t")
    gathering = Gathering(book(r"shop\..*"), RULES, passing=passing(), watched=frozenset({name}))
    rows = *MAP_AND_ROWS, query("SAVEPOINT s"), *MAP_AND_ROWS, *MAP_AND_ROWS
    chunk = chunk_of(gtid(5), BEGIN, *rows, *end)
    TransactionReader(SERVER, CHARSETS).read(chunk, gathering)
    assert gathering.gathered.changed == {name: keys}


def test_rows_before_a_savepoint_stay_and_have_the_ordinals_of_the_source() -> None:
    rows = MAP_AND_ROWS
    after = (
        query("SAVEPOINT a"),
        *rows,
        query("SAVEPOINT b"),
        *rows,
        query("ROLLBACK TO `a`"),
        *rows,
    )
    found = gathered(gtid(5), BEGIN, *rows, *after, xid(), include=r"shop\..*")
    kept = [item for item in found.items if isinstance(item, Rows)]
    size = len(kept[0].rows)
    assert [one.ordinal for one in kept] == [0, 3 * size]
    assert found.values == 2 * size


@pytest.mark.parametrize("context", [(), (gtid(5), BEGIN)])
def test_rows_that_are_known_to_be_undone_leave_their_ordinals_to_the_source(
    context: tuple[bytes, ...],
) -> None:
    undone, size = (MAP, int_rows(int_table(), 5, 6)), 2
    head = () if context else (gtid(5), BEGIN)
    saved = query("ROLLBACK TO `s`"), *MAP_AND_ROWS, query("ROLLBACK TO `s`"), xid()
    chunk = chunk_of(
        *head, *undone, *saved, context=context, context_start=START if context else None
    )
    at = sum(map(len, (*head, MAP)))
    gathering = Gathering(book(r"shop\..*"), RULES, passing=passing())
    known = replace(chunk, undone=frozenset({at}), is_settled=True)
    TransactionReader(SERVER, CHARSETS).read(known, gathering)
    (kept,) = (item for item in gathering.gathered.items if isinstance(item, Rows))
    assert kept.ordinal == size


@pytest.mark.parametrize("sql", ["ROLLBACK", "ROLLBACK TO `s`"])
def test_rows_that_are_taken_back_are_refused_where_they_may_be_published(sql: str) -> None:
    # A savepoint that the binlog does not have.
    with pytest.raises(AqueductError, match="ROLLBACK"):
        gathered(gtid(5), BEGIN, *MAP_AND_ROWS, query("ROLLBACK TO t"), xid(), include=r"shop\..*")
    with pytest.raises(AqueductError, match="ROLLBACK"):
        gathered(query(sql), xid(), include=r"other\..*", context=(gtid(5), BEGIN))


def test_a_column_that_cannot_be_read_is_the_trouble_of_its_table() -> None:
    column = MappedColumn(
        type=FieldType.VARCHAR, metadata=80, nullable=True, name="a", collation=999
    )
    unread = TableMap(table_id=1, database="shop", table="t", columns=(column,))
    with pytest.raises(
        RowUnreadable, match="collation 999, which the server does not list"
    ) as caught:
        book(r"shop\..*").of(unread)
    assert caught.value.name_of_table == ("shop", "t")


def test_a_table_in_memory_that_its_server_has_emptied_is_truncated_and_no_other_one() -> None:
    emptied = query("DELETE FROM `shop`.`t`")
    for options, count in (("ENGINE=MEMORY", 1), ("ENGINE=heap", 1), ("ENGINE=InnoDB", 0), ("", 0)):
        known = {("shop", "t"): replace(table("id"), options=options)}
        tables = CapturedTables(
            Routes(prefix="aq", include=r"shop\..*"), CHARSETS, server=OURS, known=known
        )
        gathering = Gathering(tables, RULES, passing=passing())
        chunk, reader = (
            chunk_of(gtid(5), BEGIN, emptied, xid()),
            TransactionReader(SERVER, CHARSETS),
        )
        if not count:
            with pytest.raises(StatementBasedChange):
                reader.read(chunk, gathering)
            continue
        reader.read(chunk, gathering)
        (item,) = [one for one in gathering.gathered.items if isinstance(one, Ddl)]
        assert (item.kind, [one.table for one in item.emptied]) == (Kind.TRUNCATE, [("shop", "t")])
        assert gathering.gathered.values == 1


def test_a_temporary_table_of_the_name_of_a_captured_table_is_truncated_alone() -> None:
    effect = ResolvedStatement(type="TRUNCATE TABLE", is_of_temporary=True)
    for resolved, tables in ((effect, []), (None, [("shop", "t")])):
        gathering = Gathering(book(r"shop\..*"), RULES, passing=passing(), resolved=resolved)
        TransactionReader(SERVER, CHARSETS).read(chunk_of(gtid(5), query("TRUNCATE t")), gathering)
        (item,) = [one for one in gathering.gathered.items if isinstance(one, Ddl)]
        assert [one.table for one in item.emptied] == tables
