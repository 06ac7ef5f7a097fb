"""One change as both mappings publish it: in which respects the two records differ, and in which fields.

Invariant: numbers that follow from the other records are not compared: `seq`, `epoch`, the number of the table
version, `total_order`, and the time of encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from app.operator.operations.mapping.trial.published import PublishedRecord


class Respect(StrEnum):
    """What would be different for a subscriber."""

    VALUE = "value"
    """The same change with other contents."""
    TOPIC = "topic"
    KEY = "key"
    PARTITION = "partition"
    """Another partition of the same topic."""
    APPEARS = "appears"
    """Only the new mapping publishes it."""
    VANISHES = "vanishes"
    """Only the mapping in force publishes it."""
    REFUSED = "refused"
    """A row that the new mapping makes impossible to publish."""


class Missing:
    """In place of a value: the record has no such field."""

    def __repr__(self) -> str:
        return "(none)"


MISSING = Missing()


class FieldDifference(NamedTuple):
    """A column or another field that differs."""

    name: str
    old: Any
    new: Any
    is_column: bool


_IMAGES = ("before", "after")
_OF_RUN = frozenset({"ts_ms", "transaction"})
_SOURCE_OF_RUN = frozenset({"seq", "epoch", "schema"})


def respects(
    old: PublishedRecord, new: PublishedRecord
) -> tuple[list[Respect], list[FieldDifference]]:
    """Return in which respects two records of one change differ, none if they are equal, and their fields."""
    found = []
    fields = list(_fields(old, new))
    if fields:
        found.append(Respect.VALUE)
    if old.topic != new.topic:
        found.append(Respect.TOPIC)
    elif old.partition != new.partition:
        found.append(Respect.PARTITION)
    if old.key != new.key:
        found.append(Respect.KEY)
    return found, fields


def _fields(old: PublishedRecord, new: PublishedRecord) -> Iterator[FieldDifference]:
    if old.value is None or new.value is None:
        if old.tags != new.tags:
            yield FieldDifference("tags", old.tags or MISSING, new.tags or MISSING, False)
        return
    if old.format != new.format:
        yield FieldDifference("format", old.format, new.format, False)
    yield from _columns(old.value, new.value)
    yield from _others(old.value, new.value, _OF_RUN | {*_IMAGES, "source"})
    source = _others(old.value["source"], new.value["source"], _SOURCE_OF_RUN)
    yield from (one._replace(name=f"source.{one.name}") for one in source)


def _columns(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldDifference]:
    """Yield each column once, with its values after the change unless only those before it differ."""
    found: dict[str, FieldDifference] = {}
    for image in _IMAGES:
        first, second = old.get(image) or {}, new.get(image) or {}
        for one in _others(first, second, frozenset()):
            found[one.name] = one._replace(is_column=True)
    yield from found.values()


def _others(
    old: Mapping[str, Any], new: Mapping[str, Any], ignored: frozenset[str]
) -> Iterator[FieldDifference]:
    # Most fields are equal, and all of them are compared for each record.
    for name, first in old.items():
        second = new.get(name, MISSING)
        if first != second and name not in ignored:
            yield FieldDifference(name, first, second, False)
    for name, second in new.items():
        if name not in old and name not in ignored:
            yield FieldDifference(name, MISSING, second, False)
