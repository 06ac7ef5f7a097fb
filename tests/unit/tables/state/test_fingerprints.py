"""The ring of fingerprints: the last ones, whole, however the journal was compacted."""

from __future__ import annotations

from connectors.kafka.reading import StoredRecord
from connectors.mysql.lookup.fingerprint import Fingerprint
from connectors.mysql.position import Coordinates, SourceOffset
from tables.journal_format import Entry
from tables.state.fingerprints import PER_SLOT, SLOTS, Fingerprints
from tests.unit.tables.made import OTHER, UUID

END = SourceOffset(server_uuid=UUID, coordinates=Coordinates("b.9", 4))


def made(number: int) -> Fingerprint:
    start, end = Coordinates("b.1", 100 * number + 4), Coordinates("b.1", 100 * number + 104)
    return Fingerprint(digest=f"{number:x}", original_us=number, ts_ms=number, start=start, end=end)


def folded(entries: list[Entry]) -> Fingerprints:
    """The fingerprints after compaction, the last of each key, as another worker reads them."""
    found = Fingerprints("shop")
    for offset, (key, value) in enumerate(dict(entries).items()):
        kind, _, *names = key.decode().split("/")
        found.take(kind, names, StoredRecord(key, value, offset))
    return found


def test_the_ring_holds_the_last_ones_in_order() -> None:
    ring, entries = Fingerprints("shop"), []
    total = SLOTS * PER_SLOT + 2 * PER_SLOT + 5
    for number in range(0, total, 7):
        entries += ring.add(map(made, range(number, min(number + 7, total))), UUID)
    found = folded(entries).last(END)
    assert found == ring.last(END)
    assert found[-1] == made(total - 1)
    assert found == [made(number) for number in range(total - len(found), total)]
    assert len(found) > (SLOTS - 1) * PER_SLOT
    assert len(dict(entries)) == SLOTS


def test_what_a_cursor_that_was_set_back_reads_again_is_there_once() -> None:
    ring = Fingerprints("shop")
    entries = ring.add(map(made, range(9)), UUID)
    back = SourceOffset(server_uuid=UUID, coordinates=made(3).end)
    assert [one.digest for one in ring.last(back)] == ["0", "1", "2", "3"]
    entries += ring.cut(back)
    entries += ring.add(map(made, range(4, 9)), UUID)
    assert folded(entries).last(END) == [made(number) for number in range(9)]
    assert ring.cut(END) == []


def test_those_of_another_server_stay_before_a_switch() -> None:
    ring = Fingerprints("shop")
    entries = ring.add([made(7), made(8)], OTHER) + ring.add([made(1)], UUID)
    low = SourceOffset(server_uuid=UUID, coordinates=made(1).end)
    assert [one.digest for one in folded(entries).last(low)] == ["7", "8", "1"]


def test_who_stops_keeping_them_removes_them() -> None:
    ring = Fingerprints("shop")
    entries = ring.add([made(1)], UUID) + ring.clear()
    assert folded(entries).last(END) == ring.last(END) == []
