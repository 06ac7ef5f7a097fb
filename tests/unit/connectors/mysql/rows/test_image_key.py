"""Partial images before a change, and the key that they show."""

import pytest

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.rows.compiled import key_contradiction
from connectors.mysql.types.registry import FieldType, MappedColumn

NAMES = ("id", "legacy_id", "body", "n")
TYPES = (FieldType.LONG, FieldType.LONG, FieldType.BLOB, FieldType.LONG)


def _map(*key: str) -> TableMap:
    columns = (
        MappedColumn(type=kind, metadata=0, nullable=False, name=name)
        for name, kind in zip(NAMES, TYPES, strict=True)
    )
    return TableMap(
        table_id=1,
        database="d",
        table="t",
        columns=tuple(columns),
        primary_key=tuple(map(NAMES.index, key)) or None,
    )


def _described(key: str, present: str, *hidden: int) -> str | None:
    there = [name in present.split() for name in NAMES]
    return key_contradiction(_map(*key.split()), there, hidden=hidden)


@pytest.mark.parametrize(
    ("key", "present"),
    [
        ("id", "id"),
        ("n id", "id n"),
        ("id", "id legacy_id n"),
        ("", "id legacy_id n"),
        ("body", "body"),
        ("legacy_id", "id legacy_id body n"),
        ("", "id legacy_id body n"),
    ],
)
def test_images_of_the_key_or_without_blobs_agree(key: str, present: str) -> None:
    assert _described(key, present) is None


@pytest.mark.parametrize(
    ("key", "present"),
    [
        ("legacy_id", "id"),
        ("id", "id n"),
        ("id n", "id"),
        ("", "id"),
        ("body", "id legacy_id n"),
    ],
)
def test_another_key_is_reported(key: str, present: str) -> None:
    result = _described(key, present)
    assert result is not None
    assert f"({', '.join(present.split())})" in result
    assert f"its key is ({', '.join(key.split())}) defined" in result


@pytest.mark.parametrize(
    ("key", "present"),
    [("", "id legacy_id body"), ("id", "id"), ("id", "id n"), ("id", "id legacy_id n")],
)
def test_a_row_hash_may_be_present_or_absent(key: str, present: str) -> None:
    assert _described(key, present, NAMES.index("n")) is None
    assert _described(key, "legacy_id", NAMES.index("n")) is not None
