"""The stored key of the last row: of a masked table it is sealed, and what cannot be opened is refused."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from connectors.errors import MappingError
from tables.rules.masking import NO_KEYS, MaskingKeys
from tables.state.snapshots.resume_key import ResumeKeys
from tables.state.snapshots.snapshot_progress import TableSnapshot, note_of

TABLE = TableSnapshot(destination="shop", database="shop", table="members", id="one")
LAST = ("name varchar(20) utf8mb4_bin, no int", "_utf8mb4 X'43616e617279'", "7")
OLD, NEW = ("old", bytes(32)), ("new", bytes(range(32)))


def resume_keys(*keys: tuple[str, bytes], is_masked: bool = True) -> ResumeKeys:
    return ResumeKeys.of(TABLE, MaskingKeys(keys), is_masked=is_masked)


def test_what_is_stored_of_a_masked_table_has_no_value_and_is_read_unchanged() -> None:
    stored = resume_keys(OLD).stored(LAST)
    _, raw = note_of(replace(TABLE, after=stored))
    assert b"43616e617279" not in raw
    assert b'"7"' not in raw
    assert "43616e617279" not in str(asdict(replace(TABLE, after=stored)))
    assert resume_keys(OLD).read(stored) == LAST


def test_after_a_rotation_it_is_opened_by_the_key_that_sealed_it() -> None:
    stored = resume_keys(OLD).stored(LAST)
    assert resume_keys(NEW, OLD).read(stored) == LAST
    assert resume_keys(NEW, OLD).stored(LAST)[1] == "new"


def test_a_table_without_masks_stores_the_key_as_it_is() -> None:
    plain = resume_keys(is_masked=False)
    assert plain.stored(LAST) == LAST
    assert plain.read(LAST) == LAST
    assert plain.read(None) is None


def test_a_column_that_is_masked_later_or_no_longer_leaves_what_is_stored_readable() -> None:
    assert resume_keys(OLD).read(LAST) == LAST
    assert resume_keys(OLD, is_masked=False).read(resume_keys(OLD).stored(LAST)) == LAST


def test_what_an_earlier_version_finds_is_the_order_of_no_key() -> None:
    order, *_ = resume_keys(OLD).stored(LAST)
    # A key's order has the name and the type of each column.
    assert " " not in order


def test_a_key_that_is_missing_or_another_is_named() -> None:
    stored = resume_keys(OLD).stored(LAST)
    with pytest.raises(MappingError, match=r"'old', which mapping\.key_file lacks"):
        resume_keys(NEW).read(stored)
    with pytest.raises(MappingError, match="another key than 'old'"):
        resume_keys(("old", NEW[1])).read(stored)
    with pytest.raises(MappingError, match="damaged"):
        resume_keys(OLD).read(stored[:2])
    with pytest.raises(MappingError, match="key_file"):
        ResumeKeys.of(TABLE, NO_KEYS, is_masked=True).stored(LAST)


def test_what_was_sealed_for_another_table_is_refused() -> None:
    other = ResumeKeys.of(replace(TABLE, table="pets"), MaskingKeys((OLD,)), is_masked=True)
    with pytest.raises(MappingError, match="another key than 'old'"):
        resume_keys(OLD).read(other.stored(LAST))
