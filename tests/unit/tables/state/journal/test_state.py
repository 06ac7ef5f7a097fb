"""The journal's fold: cursors move forward only, and a newer format is refused."""

import orjson
import pytest

from connectors.errors import JournalDamaged, JournalTooNew, JournalUnreadable
from connectors.kafka.reading import StoredRecord
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import Coordinates, SourceOffset
from tables import journal_format
from tables.state.cursor import Cursor, Resume
from tables.state.journal import state as journal

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def cursor(*, epoch: int = 1, seq: int = 0, destination: str = "shop") -> Cursor:
    offset = SourceOffset(
        server_uuid=UUID,
        coordinates=Coordinates("b.000001", 4),
        gtid_set=GtidSet.parse(f"{UUID}:1-5:7"),
    )
    resume = Resume(transaction_id=f"{UUID}:6", rows=3, published=2, part=1)
    return Cursor(
        destination=destination,
        installation="i",
        epoch=epoch,
        seq=seq,
        versions=0,
        offset=offset,
        resume=resume,
    )


def stored(one: Cursor, offset: int = 0) -> StoredRecord:
    key = journal.cursor_key(one.destination)
    return StoredRecord(key, journal.encoded(one.to_json()), offset)


def test_a_cursor_is_read_as_it_was_written() -> None:
    assert journal.fold("shop", [stored(cursor(seq=9))]).cursor == cursor(seq=9)


@pytest.mark.parametrize(
    "later", [cursor(epoch=2, seq=9), cursor(epoch=1, seq=10), cursor(epoch=3, seq=9)]
)
def test_a_cursor_that_goes_back_in_epoch_or_seq_is_damage(later: Cursor) -> None:
    with pytest.raises(JournalDamaged, match="goes back"):
        journal.fold("shop", [stored(cursor(epoch=2, seq=10)), stored(later, 1)])


def test_other_destinations_change_nothing() -> None:
    records = [stored(cursor(seq=4)), stored(cursor(seq=1, destination="shop-2"), 1)]
    assert journal.fold("shop", records).cursor == cursor(seq=4)


@pytest.mark.remedy("JournalTooNew")
def test_a_newer_format_is_refused_by_name_until_a_version_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = orjson.dumps({**cursor(seq=9).to_json(), "format": 99})
    record = StoredRecord(journal.cursor_key("shop"), value, 5)
    with pytest.raises(JournalTooNew, match=r"format 99.*Run that version"):
        journal.fold("shop", [stored(cursor(seq=4)), record]).check_readable()
    monkeypatch.setattr(journal_format, "FORMAT", 99)
    state = journal.fold("shop", [record])
    state.check_readable()
    assert state.cursor == cursor(seq=9)


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"format":1}', b"not json"])
def test_a_record_that_cannot_be_read_is_damage_and_not_passed_by(value: bytes) -> None:
    bad = StoredRecord(journal.cursor_key("shop"), value, 5)
    with pytest.raises(JournalUnreadable) as caught:
        journal.fold("shop", [stored(cursor(seq=9)), bad]).check_readable()
    assert caught.value.context["offset"] == 5
    assert caught.value.context["key"] == "cursor/shop"
    # Of another destination it is no concern, and a later record of its key takes its place.
    journal.fold("shop-2", [bad]).check_readable()
    state = journal.fold("shop", [bad, stored(cursor(seq=9), 6)])
    state.check_readable()
    assert state.cursor == cursor(seq=9)
