"""Decoder of one table version's rows events, with generated code.

Invariant: an image is read to its last byte or refused. RowDecoder reads the rare rows: those whose images
lack columns, contain only the changes of a document, or have characters that Unicode lacks. Missing columns
and replaced characters are marked.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from connectors.errors import (
    MalformedEvent,
    RowUnreadable,
    RuleImpossible,
    UnsupportedEvent,
    WitnessesDiffer,
)
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.charsets import Charsets, Replaced, ReplacedText
from connectors.mysql.rows.column_rule import ColumnRule
from connectors.mysql.rows.compiled.generate import Change, Row, RowsFunction, Table
from connectors.mysql.rows.compiled.patterns import Patterns
from connectors.mysql.rows.decoder import (
    ABSENT,
    PARTIAL,
    ROWS_EVENTS,
    UPDATES,
    V1,
    WRITES,
    Image,
    RowChange,
    RowDecoder,
    ruled,
)
from connectors.mysql.types.registry import binlog_type, field_of

SPLIT = "\0"
"""Separator between two texts of marks; JSON never contains it."""


class RowText(NamedTuple):
    """A changed row as JSON text: no ``before`` for an insert, no ``after`` for a delete.

    Keys are the JSON of the key's columns; None if the table has no key or the row has no such image.
    """

    before: str | None
    after: str | None
    old_key: str | None
    new_key: str | None
    marks: str | None = None
    """Members of a JSON object, without its braces.

    ``absent`` lists the columns that no image contains, ``replaced`` the columns with characters that
    Unicode lacks. A row whose key changed may have two texts, separated by SPLIT: the marks of the before
    image, then those of the after image."""


class _Kind:
    """Events of one type whose images contain all columns."""

    __slots__ = ("bitmap_size", "change", "head_size", "heads", "runs")

    def __init__(self, event_type: int, columns: int) -> None:
        update = event_type in UPDATES
        self.change = (
            Change.UPDATE if update else Change.INSERT if event_type in WRITES else Change.DELETE
        )
        self.bitmap_size = size = (columns + 7) // 8
        count = bytes([columns]) if columns < 251 else b"\xfc" + columns.to_bytes(2, "little")
        extra = b"" if event_type in V1 else b"\x02\x00"
        # Bits after the last column may have any value.
        full = [(1 << columns) - 1, (1 << 8 * size) - 1]
        bitmaps = [bits.to_bytes(size, "little") * (2 if update else 1) for bits in full]
        self.heads = {extra + count + bitmap for bitmap in bitmaps}
        """The bytes between the flags of a body and its first row."""
        self.head_size = 8 + len(extra + count + bitmaps[0])
        self.runs: dict[bytes, RowsFunction] = {}
        """Functions by head and the first row's NULLs."""


class CompiledDecoder:
    """Decodes rows events for the table as one TABLE_MAP described it."""

    def __init__(
        self,
        table_map: TableMap,
        charsets: Charsets,
        *,
        key: Sequence[int] | None = None,
        rules: Mapping[str, ColumnRule] | None = None,
        renames: Mapping[str, str] | None = None,
        hidden: frozenset[int] = frozenset(),
        omitted: frozenset[int] = frozenset(),
        key_is_logged: bool = True,
        key_head: str = "{",
        place: Sequence[int] = (),
    ) -> None:
        """``key`` are the columns of the records' key; with None, of the primary key.

        ``rules`` and ``renames`` (the names in images and keys) are by column name. ``hidden`` are columns
        that the server's own tables do not list, ``omitted`` further columns to exclude from images.
        ``key_head`` is the text before a key's first member. The JSON of the columns in ``place`` follows
        each key after a NUL. Without ``key_is_logged``, incomplete before images must agree with the key.
        """
        self._hidden = hidden
        self._partial = RowDecoder(table_map, charsets)
        self._map = table_map
        self._key_is_logged = key_is_logged
        self._name = f"{table_map.database}.{table_map.table}"
        self._table_name = (table_map.database, table_map.table)
        try:
            fields = [
                field_of(column, charsets, (rules or {}).get(column.name or ""))
                for column in table_map.columns
            ]
        except UnsupportedEvent as error:
            raise UnsupportedEvent(error.detail, table=self._name, remedy=error.advice) from None
        own = [column.name or "" for column in table_map.columns]
        self._names = [(renames or {}).get(name, name) for name in own]
        self._key = (table_map.primary_key or ()) if key is None else key
        self._table = Table(
            names=self._names,
            fields=fields,
            key=self._key,
            hidden=hidden | omitted,
            key_head=key_head,
            place=place,
        )
        self._rules = {n: one.rule for n, one in enumerate(fields) if one.rule is not None}
        count = len(fields)
        self._kinds = {int(kind): _Kind(kind, count) for kind in ROWS_EVENTS - {PARTIAL}}
        self._patterns = Patterns(self._table)

    @property
    def table(self) -> Table:
        """The names, the key and the columns that rows have."""
        return self._table

    def decode(self, event_type: int, body: bytes) -> Iterator[RowText]:
        """The rows of one event's body, in order; raise MalformedEvent if the bytes do not fit."""
        return map(RowText._make, self.rows(event_type, body))

    def rows(self, event_type: int, data: bytes, at: int = 0, end: int | None = None) -> list[Row]:
        """The rows of the event whose body is ``data[at:end]``, in order, each as the fields of a RowText.

        Raise MalformedEvent if the bytes do not fit.
        """
        if end is None:
            end = len(data)
        try:
            return self._rows(event_type, data, at, end)
        except (UnicodeDecodeError, Replaced):
            pass
        except (IndexError, ValueError, KeyError, struct.error, orjson.JSONEncodeError) as error:
            raise MalformedEvent(f"its rows cannot be read: {error}", table=self._name) from error
        return self._rarely(event_type, data[at:end])

    def _rows(self, event_type: int, data: bytes, at: int, end: int) -> list[Row]:
        found: list[Row] = []
        kind = self._kinds.get(event_type)
        if kind is None:
            return self._rarely(event_type, data[at:end])
        row = at + kind.head_size
        run = kind.runs.get(data[at + 8 : row + kind.bitmap_size])
        if run is None and data[at + 8 : row] not in kind.heads:
            return self._rarely(event_type, data[at:end])
        patterns = self._patterns
        while row < end:
            if run is None:
                head = data[at + 8 : at + kind.head_size]
                run = patterns.run(kind.runs, head, patterns.nulls(data, row), kind.change)
            end_of_run = run(data, row, end, found, patterns)
            if end_of_run == row:
                break
            row, run = end_of_run, None
        if row != end:
            raise IndexError("a row ends past the end of its event")
        return found

    def _rarely(self, event_type: int, body: bytes) -> list[Row]:
        """Rows that lack columns or have replaced characters, and events with an unusual head."""
        if not self._key_is_logged and event_type not in WRITES:
            self._compare_key(self._partial.columns_before(event_type, body))
        return [self._from_images(change) for change in self._partial.decode(event_type, body)]

    def _compare_key(self, present: list[bool]) -> None:
        fault = key_contradiction(self._map, present, hidden=self._hidden)
        if fault is not None:
            raise WitnessesDiffer.of((self._map.database, self._map.table), fault)

    def _from_images(self, change: RowChange) -> Row:
        before, after = _completed(change)
        old_key, new_key = self._key_of(before), self._key_of(after)
        marks = self._marks(after or before or (), before, after)
        if before is not None and after is not None and old_key != new_key:
            # A record of its own shows the before image, which may lack more columns than the after image.
            of_before = self._marks(before, before, after)
            if of_before != marks:
                marks = f"{of_before or ''}{SPLIT}{marks or ''}"
        return self._object(before), self._object(after), old_key, new_key, marks

    def _object(self, image: Image | None) -> str | None:
        if image is None:
            return None
        shown = self._shown_values(ruled(image, self._rules))
        return _dumped({name: value for name, value in shown if value is not ABSENT})

    def _shown_values(self, image: Image | tuple[()]) -> Iterator[tuple[str, Any]]:
        """The values by column name, without hidden and omitted columns."""
        for index, (name, value) in enumerate(zip(self._names, image, strict=True)):
            if index not in self._table.hidden:
                yield name, value

    def _key_of(self, image: Image | None) -> str | None:
        if image is None or not self._key:
            return None
        key = {self._names[index]: image[index] for index in self._key}
        if ABSENT in key.values():
            raise RowUnreadable.of(
                self._table_name,
                "a row image lacks its primary key; the server needs binlog_row_image = FULL, for all sessions",
            )
        for name, value in key.items():
            if isinstance(value, ReplacedText):
                raise RowUnreadable.of(
                    self._table_name,
                    f"column {name!r} of a row's key has characters that Unicode lacks, so that two rows could "
                    "have the same key",
                )
        shown = ruled(image, self._rules)
        key_text = _dumped({self._names[index]: shown[index] for index in self._key})
        return self._table.key_head + key_text[1:] + self._place_of(shown)

    def _place_of(self, shown: Image) -> str:
        """The text after a key: the JSON of the columns that choose the partition, or nothing."""
        if not self._table.place:
            return ""
        place = {self._names[index]: shown[index] for index in self._table.place}
        if absent := [name for name, value in place.items() if value is ABSENT]:
            raise RuleImpossible.of(
                self._table_name,
                f"a row image lacks column {absent[0]!r}, by which its partition is chosen; the server needs "
                "binlog_row_image = FULL, for all sessions",
            )
        return f"\0{_dumped(place)}"

    def _marks(self, shown: Image | tuple[()], *images: Image | None) -> str | None:
        marks: dict[str, list[str]] = {}
        if absent := [name for name, value in self._shown_values(shown) if value is ABSENT]:
            marks["absent"] = absent
        found = {
            name
            for image in images
            if image is not None
            for name, value in self._shown_values(image)
            if isinstance(value, ReplacedText)
        }
        if found:
            marks["replaced"] = [name for name in self._names if name in found]
        return _dumped(marks)[1:-1] if marks else None


def _completed(change: RowChange) -> tuple[Image | None, Image | None]:
    """Fill in the columns that an after image lacks because they did not change."""
    before, after = change.before, change.after
    if before is None or after is None or ABSENT not in after:
        return before, after
    return before, tuple(
        old if new is ABSENT else new for old, new in zip(before, after, strict=True)
    )


def _dumped(value: Any) -> str:
    return orjson.dumps(value).decode()


def key_contradiction(
    table_map: TableMap, present: Sequence[bool], *, hidden: Collection[int] = ()
) -> str | None:
    """Return how the columns of an image before a change contradict the table's key; None if they do not.

    ``hidden`` are MariaDB's row hashes, which are ignored.

    Invariant: an image before a change lacks columns in two cases only. With ``binlog_row_image=MINIMAL``
    it has the columns of the server's key and no other; with ``NOBLOB`` it has all columns except some
    stored as BLOBs, and always the key's. A table without a key has all columns in MINIMAL images.
    MariaDB's row hashes are present in some images and absent from others. Source:
    ``binlog_prepare_row_images`` in MySQL's and MariaDB's ``log_event`` code.
    """
    key = set(table_map.primary_key or ())
    shown = set(range(len(present))).difference(hidden)
    there = {index for index in shown if present[index]}
    lacking = shown - there
    if not lacking:
        return None
    types = (binlog_type(table_map.columns[index].type) for index in lacking)
    lacks_blobs_only = all(one is not None and one.is_blob for one in types)
    if key <= there and (there == key or lacks_blobs_only):
        return None
    names = [column.name or "" for column in table_map.columns]
    found = ", ".join(names[index] for index in sorted(there))
    defined = ", ".join(names[index] for index in table_map.primary_key or ())
    return f"its images before a change identify rows by ({found}), its key is ({defined}) defined"
