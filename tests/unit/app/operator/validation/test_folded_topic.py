"""A topic folds to the last record of each key, and shows what it had of a key during a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from app.audit.topics.topics import Claims
from app.operator.validation.errors import NotComparable
from app.operator.validation.folded_topic import (
    PARTIAL,
    FoldedTopic,
    SelectedRow,
    Unequal,
    UnknownVersion,
)
from connectors.kafka.reading import StoredRecord
from tests.unit.app.operator.validation.records import (
    NAME,
    images,
    key,
    record,
    selected,
    tombstone,
)


@pytest.fixture
def folded() -> Iterator[FoldedTopic]:
    topic = FoldedTopic("shop", {NAME: images()}, Claims(None, Counter()))
    yield topic
    topic.close()


def compared(folded: FoldedTopic, *rows: SelectedRow, run: int = 1) -> list[Unequal]:
    folded.select(rows)
    return list(folded.compare(NAME, run))


def take(folded: FoldedTopic, *records: StoredRecord, part: int = 0) -> None:
    for one in records:
        folded.take(part, one)


def keys(found: Iterable[Unequal]) -> list[tuple[bytes, bool]]:
    return [(one.row.key, one.is_missing) for one in found]


def test_the_last_record_of_each_key_counts(folded: FoldedTopic) -> None:
    take(
        folded,
        record(1, "a", at=0, op="c"), record(1, "b", at=1), record(2, "a", at=2, op="r"),
        record(3, "a", at=3, op="c"), record(3, None, at=4, op="d"), tombstone(3, at=5),
        record(4, "a", at=6, op="c"), record(4, None, at=7, op="d"), record(4, "b", at=8, op="c"),
    )  # fmt: skip
    folded.begin_look()
    found = compared(folded, selected(1, "a"), selected(2, "a"), selected(3, "a"), selected(4, "b"))
    assert keys(found) == [(key(1), False), (key(3), True)]
    assert found[0].at == (0, 1)
    assert list(folded.unseen(NAME, 1)) == []


def test_equal_rows_are_seen_and_the_others_are_not(folded: FoldedTopic) -> None:
    take(folded, *(record(number, "a", at=number, op="c") for number in range(5)))
    folded.begin_look()
    assert compared(folded, selected(1, "a"), selected(3, "a")) == []
    folded.begin_look()
    assert compared(folded, selected(4, "a")) == []
    assert [(one, at) for one, _, at in folded.unseen(NAME, 1)] == [(key(0), 0), (key(2), 2)]
    # Another run begins without any.
    assert len(list(folded.unseen(NAME, 2))) == 5


def test_each_version_during_a_look_is_one_that_a_select_may_have_returned(
    folded: FoldedTopic,
) -> None:
    take(folded, record(1, "a", at=0, op="c"), record(2, "a", at=1, op="c"))
    folded.begin_look()
    take(
        folded, record(1, "b", at=2), record(1, "c", at=3),
        record(2, None, at=4, op="d"), tombstone(2, at=5), record(3, "a", at=6, op="c"),
    )  # fmt: skip
    for value in "abc":
        assert compared(folded, selected(1, value), selected(2, "a"), selected(3, "a")) == []
    assert keys(compared(folded, selected(1, "d"))) == [(key(1), False)]
    # Versions of an earlier look are not.
    folded.begin_look()
    found = compared(folded, selected(1, "b"), selected(2, "a"), selected(3, "a"))
    assert keys(found) == [(key(1), False), (key(2), True)]


def test_versions_that_one_batch_writes_at_once_are_all_kept(folded: FoldedTopic) -> None:
    folded.begin_look()
    take(folded, *(record(1, number, at=number) for number in range(5000)))
    for value in (0, 1, 1999, 2000, 2001, 4999):
        assert compared(folded, selected(1, value)) == []
    assert keys(compared(folded, selected(1, 5000))) == [(key(1), False)]


def test_the_number_decides_and_not_the_order_of_reading(folded: FoldedTopic) -> None:
    take(folded, record(1, "new", at=0, seq=9), part=1)
    take(folded, record(1, "old", at=7, seq=3), tombstone(1, at=8), part=0)
    take(folded, record(2, "old", at=9, seq=50), part=0)
    take(folded, record(2, "new", at=1, seq=20, epoch=2), part=1)
    folded.begin_look()
    assert compared(folded, selected(1, "new"), selected(2, "new")) == []


def test_a_tombstone_alone_removes_its_key_and_no_later_row(folded: FoldedTopic) -> None:
    take(folded, record(1, "a", at=0, op="c"), tombstone(1, at=1), record(2, "a", at=2, op="c"))
    take(folded, tombstone(2, at=3), record(2, "b", at=4, op="c"))
    folded.begin_look()
    assert keys(compared(folded, selected(1, "a"), selected(2, "b"))) == [(key(1), True)]


def test_a_truncate_removes_every_earlier_row_in_any_partition(folded: FoldedTopic) -> None:
    take(folded, record(1, "a", at=0, seq=1, op="c"), record(None, None, at=1, seq=5, op="t"))
    take(folded, record(2, "a", at=0, seq=2, op="c"), record(3, "a", at=1, seq=6, op="c"), part=1)
    # Nor does one that is read late remove a later row.
    folded.flush()
    take(folded, record(None, None, at=2, seq=5, op="t"))
    folded.begin_look()
    assert not folded.is_emptied(NAME)
    found = compared(folded, selected(1, "a"), selected(2, "a"), selected(3, "a"))
    assert keys(found) == [(key(1), True), (key(2), True)]
    take(folded, record(None, None, at=3, seq=7, op="t"))
    assert folded.is_emptied(NAME)


def test_records_of_other_tables_and_destinations_are_ignored(folded: FoldedTopic) -> None:
    take(folded, record(1, "a", at=0, op="c"))
    take(folded, record(1, "b", at=1, destination="other"), record(2, "b", at=2, table=("x", "t")))
    folded.begin_look()
    assert compared(folded, selected(1, "a")) == []
    assert list(folded.unseen(NAME, 1)) == []


def test_what_a_record_does_not_determine_is_a_doubt(folded: FoldedTopic) -> None:
    take(
        folded,
        record(1, None, at=0, after={"id": 1}, absent=["v"]),
        record(2, None, at=1, op="c", left_out={"after": 9}),
    )
    folded.begin_look()
    found = compared(folded, selected(1, "a"), selected(2, "a"))
    assert [one.doubt for one in found] == [PARTIAL, "rows without their images"]
    # Nor is it known to be a difference if another record follows.
    take(folded, record(1, "b", at=2))
    assert compared(folded, selected(1, "a"))[0].doubt == PARTIAL


def test_a_record_in_another_format_and_one_of_an_unknown_version_are_refused(
    folded: FoldedTopic,
) -> None:
    canal = StoredRecord(key(1), b"{}", 0, (("format", b"canal"),))
    with pytest.raises(NotComparable, match="in the format canal"):
        folded.take(0, canal)
    with pytest.raises(UnknownVersion) as raised:
        folded.take(0, record(1, "a", at=0, schema=2))
    assert (raised.value.table, raised.value.number) == (NAME, 2)


@pytest.mark.parametrize("value", [b"secret", b'["secret"]', b'{"secret": 1}', b'{"source": {}}'])
def test_a_record_that_no_worker_wrote_is_named_by_its_place_alone(
    folded: FoldedTopic, value: bytes
) -> None:
    with pytest.raises(NotComparable) as raised:
        folded.take(3, StoredRecord(key(1), value, 41))
    assert raised.value.detail == (
        "its topic has a record that no worker wrote, in partition 3 at offset 41"
    )


def test_a_row_of_a_masked_key_has_no_literals(folded: FoldedTopic) -> None:
    folded.begin_look()
    (found,) = compared(folded, selected(1, "a")._replace(literals=()))
    assert found.row.literals == ()
