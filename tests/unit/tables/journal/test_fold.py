"""Any compaction of the journal folds to the same state, and records are read as they were written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import JournalDamaged
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.stream.prepared_xa import PreparedAt
from tables.cursor import Cursor, Resume
from tables.journal import state as journal
from tables.journal.checkpoint import MemoryCheckpoint, newer, resume_from, row_of
from tables.journal.installation import installation_in, installation_key, is_installation
from tables.journal.state import DestinationState
from tables.table_version import Column, Definition, TableVersion

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
DESTINATIONS = ("shop", "shop-2")


def version(number: int, *, destination: str = "shop", table: str = "orders") -> TableVersion:
    columns = tuple(
        Column(name=f"c{n}", type="varchar(9)", nullable=True, charset="utf8mb4")
        for n in range(number)
    )
    return TableVersion(
        destination=destination,
        database="a/b",
        table=table,
        version=number,
        topic=f"aq.shop.{table}",
        definition=Definition(columns=columns, primary_key=("c0",)),
        gtid=f"{UUID}:{number}",
        coordinates=Coordinates("b.000001", number),
        ts_ms=1,
    )


def cursor(
    *, seq: int, epoch: int = 1, versions: int = 0, destination: str = "shop", cut: bool = False
) -> Cursor:
    gtids = GtidSet.parse(f"{UUID}:1-5:7") if seq % 2 else None
    return Cursor(
        destination=destination,
        installation="i",
        epoch=epoch,
        seq=seq,
        versions=versions,
        offset=SourceOffset(
            server_uuid=UUID, coordinates=Coordinates("b.000001", 4 + seq), gtid_set=gtids
        ),
        resume=Resume(transaction_id=f"{UUID}:6", rows=3, published=2, part=1) if cut else None,
    )


@st.composite
def journals(draw: st.DrawFn) -> list[StoredRecord]:
    """What two destinations in one partition wrote, in order: versions, then the cursor that counts them."""
    records: list[StoredRecord] = []
    counts = {name: {"orders": 0, "log": 0} for name in DESTINATIONS}
    places = dict.fromkeys(DESTINATIONS, (1, 0))

    def store(key: bytes, value: dict[str, object]) -> None:
        # Control records of transactions take offsets too.
        offset = 3 * len(records)
        records.append(StoredRecord(key, journal.encoded(value), offset))

    for _ in range(draw(st.integers(0, 12))):
        name = draw(st.sampled_from(DESTINATIONS))
        for table in draw(st.lists(st.sampled_from(["orders", "log"]), max_size=2)):
            counts[name][table] += 1
            made = version(counts[name][table], destination=name, table=table)
            store(journal.version_key(made), made.to_json())
        epoch, seq = places[name]
        places[name] = (epoch + draw(st.integers(0, 1)), seq + draw(st.integers(0, 3)))
        moved = cursor(
            epoch=places[name][0],
            seq=places[name][1],
            versions=sum(counts[name].values()),
            destination=name,
            cut=draw(st.booleans()),
        )
        store(journal.cursor_key(name), moved.to_json())
    return records


def compacted(draw: st.DrawFn, records: list[StoredRecord]) -> list[StoredRecord]:
    """What a broker may leave: of each key the last record, of the others any."""
    last = {record.key: record.offset for record in records}
    return [one for one in records if last[one.key] == one.offset or draw(st.booleans())]


@st.composite
def compactions(draw: st.DrawFn) -> tuple[list[StoredRecord], list[StoredRecord]]:
    records = draw(journals())
    return records, compacted(draw, records)


@settings(deadline=None)
@given(both=compactions())
def test_any_compaction_of_the_journal_folds_to_the_same_state(
    both: tuple[list[StoredRecord], list[StoredRecord]],
) -> None:
    whole, less = both
    for name in DESTINATIONS:
        assert journal.fold(name, less) == journal.fold(name, whole)
        assert journal.fold(name, whole).is_whole()


@settings(deadline=None)
@given(records=journals(), data=st.data())
def test_a_checkpoint_and_the_journal_from_its_offset_fold_to_the_same_state(
    records: list[StoredRecord], data: st.DataObject
) -> None:
    upto = data.draw(st.integers(0, len(records)))
    checkpoint = MemoryCheckpoint()
    for record in records[:upto]:
        fold_in(checkpoint, record)
    # A replay by the tables' own recovery turns nothing back.
    for record in records[: data.draw(st.integers(0, upto))]:
        fold_in(checkpoint, record)
    for name in DESTINATIONS:
        state, start = resume_from(name, checkpoint)
        for record in records:
            if record.offset >= start:
                state.apply(record)
        assert state == journal.fold(name, records)


def fold_in(checkpoint: MemoryCheckpoint, record: StoredRecord) -> None:
    key, row = row_of(record)
    if newer(row, checkpoint.rows.get(key)):
        checkpoint.rows[key] = row


def test_a_row_takes_the_place_of_an_older_one_only() -> None:
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


def test_a_checkpoint_goes_on_behind_its_newest_record() -> None:
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
        "X'61',X'',1": PreparedAt(Coordinates("binlog.000002", 5_000_000_000), "u:7"),
        "X'62',X'',1": PreparedAt(Coordinates("binlog.000003", 4), None),
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
