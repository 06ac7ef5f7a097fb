"""Any compaction of the journal folds to the same state, and records are read as they were written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connectors.errors import JournalDamaged
from connectors.kafka.reading import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates
from connectors.mysql.stream.prepared_xa import PreparedPosition
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint, newer, resume_from
from tables.state.journal.records import installation_in, installation_key, is_installation
from tables.state.journal.state import DestinationState
from tests.unit.tables.state.journal.made import cursor, fold_in, version


def test_a_row_replaces_an_older_one_only() -> None:
    rows = [{"offset": offset, "value": ""} for offset in (4, 5)]
    assert newer(rows[1], rows[0])
    assert newer(rows[0], None)
    assert not newer(rows[0], rows[1])
    assert not newer(rows[0], rows[0])


def stored(value: Cursor | TableVersion, offset: int) -> StoredRecord:
    return StoredRecord(key_of(value), journal.encoded(value.to_json()), offset)


def key_of(value: Cursor | TableVersion) -> bytes:
    if isinstance(value, Cursor):
        return journal.cursor_key(value.destination)
    return journal.version_key(value)


def test_a_checkpoint_that_lacks_a_version_its_cursor_counts_is_thrown_away() -> None:
    checkpoint = MemoryCheckpoint()
    for record in (stored(version(1), 4), stored(cursor(seq=5, versions=2), 7)):
        fold_in(checkpoint, record)
    assert resume_from("shop", checkpoint) == (DestinationState("shop"), 0)


def test_a_checkpoint_continues_after_its_newest_record() -> None:
    checkpoint = MemoryCheckpoint()
    for record in (stored(cursor(seq=5, versions=1), 7), stored(version(1), 4)):
        fold_in(checkpoint, record)
    state, start = resume_from("shop", checkpoint)
    assert start == 8
    assert state.cursor == cursor(seq=5, versions=1)


def test_an_empty_checkpoint_begins_at_the_journals_beginning() -> None:
    assert resume_from("shop", MemoryCheckpoint()) == (DestinationState("shop"), 0)


def test_a_version_that_comes_again_changes_nothing() -> None:
    state = journal.fold("shop", [stored(version(n), n) for n in (1, 2, 1)])
    assert state.versions == {("a/b", "orders"): version(2)}
    assert state.version_count == 2


def test_an_installation_is_known_by_its_key() -> None:
    keys = [journal.cursor_key("shop"), *map(installation_key, ("b", "a"))]
    records = [StoredRecord(key, b"{}", n) for n, key in enumerate(keys)]
    assert [is_installation(record) for record in records] == [False, True, True]
    assert installation_in(records[1]) == "b"


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("seq", [4, 5])
def test_a_cursor_is_what_it_was_after_the_journal(seq: int, cut: bool) -> None:
    written = cursor(seq=seq, cut=cut)
    assert Cursor.from_json(journal.decoded(stored(written, 1))) == written


def test_an_empty_set_of_gtids_is_not_taken_for_none() -> None:
    written = cursor(seq=5)
    written = replace(written, offset=replace(written.offset, gtid_set=GtidSet()))
    assert Cursor.from_json(written.to_json()).offset.gtid_set == GtidSet()


def test_a_table_version_is_what_it_was_after_the_journal() -> None:
    assert TableVersion.from_json(journal.decoded(stored(version(3), 1))) == version(3)


@pytest.mark.parametrize("missing", sorted(version(1).to_json().keys() - {"wire"}))
def test_a_table_version_that_lacks_a_field_is_damage(missing: str) -> None:
    value = version(1).to_json()
    del value[missing]
    with pytest.raises(JournalDamaged, match="table version"):
        TableVersion.from_json(value)


def test_a_cursor_keeps_the_xa_transactions_that_are_prepared_and_an_old_one_has_none() -> None:
    places = {
        "X'61',X'',1": PreparedPosition(Coordinates("binlog.000002", 5_000_000_000), "u:7"),
        "X'62',X'',1": PreparedPosition(Coordinates("binlog.000003", 4), None),
    }
    written = replace(cursor(seq=5), prepared=places)
    assert Cursor.from_json(journal.decoded(stored(written, 1))).prepared == places
    old = written.to_json()
    del old["prepared"], old["check"]
    assert Cursor.from_json(old) == replace(written, prepared={})


@pytest.mark.parametrize("prepared", [7, [], {"x": None}, {"x": {"gtid": None, "file": "b"}}])
def test_prepared_transactions_that_cannot_be_read_are_damage(prepared: object) -> None:
    with pytest.raises(JournalDamaged, match="a cursor cannot be read"):
        Cursor.from_json(unchecked(cursor(seq=1)) | {"prepared": prepared})


def unchecked(written: Cursor) -> dict[str, Any]:
    """A cursor as it was stored before it had a checksum."""
    value = written.to_json()
    del value["check"]
    return value


def test_a_cursor_without_a_checksum_is_an_old_one() -> None:
    assert Cursor.from_json(unchecked(cursor(seq=5))) == cursor(seq=5)


@pytest.mark.parametrize("field", ["seq", "epoch", "gtid_set", "pos", "versions"])
def test_a_cursor_that_was_changed_by_hand_is_damage(field: str) -> None:
    value = cursor(seq=5).to_json()
    value[field] = value[field] + 7 if isinstance(value[field], int) else None
    with pytest.raises(JournalDamaged, match="was changed by hand"):
        Cursor.from_json(value)


@pytest.mark.parametrize(
    "missing", sorted(unchecked(cursor(seq=1)).keys() - {"prepared", "history", "proof"})
)
def test_a_cursor_that_lacks_a_field_is_damage(missing: str) -> None:
    value = unchecked(cursor(seq=1))
    del value[missing]
    with pytest.raises(JournalDamaged, match="a cursor cannot be read"):
        Cursor.from_json(value)


def test_names_with_slashes_keep_their_keys_apart() -> None:
    one = replace(version(1), database="a/b", table="c")
    other = replace(version(1), database="a", table="b/c")
    assert journal.version_key(one) != journal.version_key(other)
