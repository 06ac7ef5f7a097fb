from __future__ import annotations

from connectors.kafka.reading import StoredRecord
from tables.state.journal.state import fold
from tables.state.mapping_in_force import MAPPING_PART, MappingInForce, note_of


def in_force(version: int) -> MappingInForce:
    return MappingInForce(
        destination="a/b",
        version=version,
        digest="d",
        position=f"f:{version}",
        seq=version,
        ts_ms=1,
    )


def test_every_boundary_stays_in_the_journal_and_the_last_is_in_force() -> None:
    notes = [note_of(in_force(number)) for number in (9, 10)]
    records = [
        StoredRecord(offset=at, key=key, value=value) for at, (key, value) in enumerate(notes)
    ]
    found = fold("a/b", records).parts[MAPPING_PART]
    assert found.last == in_force(10)
    assert found.by_version == {9: in_force(9), 10: in_force(10)}
    assert fold("a", records).parts[MAPPING_PART].last is None
