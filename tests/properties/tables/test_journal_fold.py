"""Any compaction of the journal, and any checkpoint of it, fold to the same state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.kafka.reading import StoredRecord
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint, resume_from
from tests.unit.tables.state.journal.made import cursor, fold_in, version

DESTINATIONS = ("shop", "shop-2")


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
