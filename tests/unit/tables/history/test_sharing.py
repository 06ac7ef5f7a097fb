"""A long history is small: parts shared by versions are stored once in memory."""

from __future__ import annotations

from connectors.mysql.ddl.definition import TableChange
from tables.history.codec import NEWEST, OLDEST, checkpoint_records, history_records
from tables.history.history import SchemaHistory
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.state import DestinationState
from tests.unit.tables.made import SERVER, WrittenJournal, applied, between, offset, table

TABLES = 20
COLUMNS = 20
VERSIONS = 30
"""Of each table; each adds a column."""


def written() -> WrittenJournal:
    history, found = SchemaHistory(), WrittenJournal()
    history.init("shop")
    names = [f"c{number}" for number in range(COLUMNS - 1)]
    tables = {("shop", f"t{number}"): table(*names) for number in range(TABLES)}
    entries = checkpoint_records(history.baseline(tables, {}, between(100), SERVER))
    for number in range(TABLES * VERSIONS):
        sql = f"ALTER TABLE t{number % TABLES} ADD added_by_{number} INT"
        entries += history_records(applied(history, 200 + 100 * number, sql))
    cursor = Cursor(
        destination="shop",
        installation="i",
        epoch=1,
        seq=1,
        versions=0,
        offset=offset(100),
        history=history.count,
    )
    found.write([*entries, (journal.cursor_key("shop"), journal.encoded(cursor.to_json()))])
    return found


def read(base: int) -> SchemaHistory:
    state = DestinationState.with_history_from("shop", base)
    for record in written().records:
        state.apply(record)
    history = state.history()
    assert history is not None
    return history


def columns_in(history: SchemaHistory) -> int:
    """The number of distinct objects among all columns of all versions."""
    found = set()
    for record in history.records:
        for change in record.changes:
            assert isinstance(change, TableChange)
            for one in (change.old, change.new):
                found |= {id(column) for column in one.columns} if one else set()
    return len(found)


def test_versions_of_a_table_share_the_columns_that_stay() -> None:
    for base in (NEWEST, OLDEST):
        history = read(base)
        assert history.count == TABLES * VERSIONS
        # All tables begin alike, so they are one object; then each version adds one column.
        assert columns_in(history) == COLUMNS + TABLES * VERSIONS


def test_a_version_is_one_object_where_it_is_before_a_step_and_after_the_step_before() -> None:
    history = read(OLDEST)
    last: dict[tuple[str, str], object] = {}
    for record in history.records:
        (change,) = record.changes
        assert isinstance(change, TableChange)
        if change.name in last:
            assert change.old is last[change.name]
        last[change.name] = change.new
