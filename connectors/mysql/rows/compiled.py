"""Decoder of one table version's rows events, with generated code: from row images straight to JSON text.

Invariant: an image is read to its last byte or refused, and the output equals that of the readers in
``types``, digit for digit; the tests compare the two. RowDecoder reads the rare rows: those whose images
lack columns, contain only the changes of a document, or have characters that Unicode lacks. Missing columns
and replaced characters are marked.

Generated code never contains input: names and labels are passed to it as constants. Neighbouring values of
fixed size are unpacked at once, with the NULL bitmap before them and the length after them. Code for known
NULLs tests no column; code for any NULLs tests each column; only a limited number of patterns of NULLs have
functions of their own. A value read past the end may be short without an error, so the caller checks where
the rows end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct, calcsize
from typing import Any, NamedTuple, Protocol

import orjson

from connectors.errors import (
    MalformedEvent,
    RowUnreadable,
    RuleImpossible,
    UnsupportedEvent,
    WitnessesDiffer,
)
from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.buffer import read_bytes
from connectors.mysql.charsets import Charsets, Replaced, ReplacedText
from connectors.mysql.rows.decoder import (
    ABSENT,
    PARTIAL,
    ROWS_EVENTS,
    UPDATES,
    V1,
    WRITES,
    ColumnRule,
    Image,
    RowChange,
    RowDecoder,
    ruled,
)
from connectors.mysql.types.decimals import named
from connectors.mysql.types.registry import NAMES, Field, binlog_type, field_of, function_of

Row = tuple[str | None, str | None, str | None, str | None, str | None]
"""``before``, ``after``, old key, new key, marks: JSON texts, as in RowText."""
ImageFunction = Callable[[bytes, int], tuple[str, str | None, int]]
"""Takes an event and an image's offset in it; returns the image, its key, and the offset after the image."""


class Images(Protocol):
    """Reader of images with any NULL pattern."""

    def image(self, data: bytes, at: int) -> tuple[str, str | None, int]: ...


RowsFunction = Callable[[bytes, int, int, list[Row], Images], int]
"""Reads successive rows with the function's own NULL pattern; returns the offset after them.

Takes an event, the offset of a row, the event's end, the list that receives the rows, and a reader of
images with other NULL patterns."""


class Change(Enum):
    """The change of an event's rows; the value is the source of the tuple that is appended for each row."""

    INSERT = "None, {image}, None, {key}, None"
    DELETE = "{image}, None, {key}, None, None"
    UPDATE = "before, {image}, old_key, {key}, None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The table that functions are generated for."""

    names: Sequence[str]
    fields: Sequence[Field]
    key: Sequence[int]
    hidden: frozenset[int] = frozenset()
    """Columns that are read but omitted from images."""
    key_head: str = "{"
    """The text before a key's first member."""
    place: Sequence[int] = ()
    """The columns whose JSON follows each key after a NUL; if empty, nothing follows the key."""
    head_size: int = 0
    """Bytes before the bitmap of NULLs, which are not read."""
    first_bit: int = 0
    """The bit of the first column in that bitmap."""

    @property
    def image_names(self) -> list[str]:
        """The names that an image contains."""
        return [name for at, name in enumerate(self.names) if at not in self.hidden]

    @property
    def bitmap_size(self) -> int:
        """Size of a bitmap with a bit for each column."""
        return (len(self.fields) + self.first_bit + 7) // 8


def rows_function(table: Table, nulls: bytes, change: Change) -> RowsFunction:
    """Return the function for rows whose images have these NULLs; of an update, the before images."""
    writer = _Writer(table)
    made: RowsFunction = function_of(writer.rows(nulls, change), writer.namespace)
    return made


def image_function(table: Table, nulls: bytes | None) -> ImageFunction:
    """Return the function for one image with these NULLs; with None, for an image with any NULLs."""
    writer = _Writer(table)
    source = writer.known_image(nulls) if nulls is not None else writer.any_image()
    made: ImageFunction = function_of(source, writer.namespace)
    return made


_LENGTHS = {1: ("B",), 2: ("H",), 3: ("H", "B"), 4: ("I",)}
_BITMAPS = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(slots=True)
class _Run:
    """Neighbouring values that are unpacked together, and the names for them."""

    little: list[str] = field(default_factory=list)
    big: list[str] = field(default_factory=list)
    little_names: list[str] = field(default_factory=list)
    big_names: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return calcsize("<" + "".join(self.little))

    def add(self, formats: Iterable[str], names: Iterable[str]) -> None:
        """Add little-endian values."""
        self.little += formats
        self.little_names += names
        self.big += [f"{calcsize('<' + format_)}x" for format_ in formats]

    def add_big(self, formats: Iterable[str], names: Iterable[str]) -> None:
        """Add big-endian values."""
        self.big += formats
        self.big_names += names
        self.little += [f"{calcsize('<' + format_)}x" for format_ in formats]


class _Writer:
    """Writes source code, and collects the objects that the code refers to.

    In the code ``d`` is the event, ``p`` the current offset, ``o`` the image as a dict, ``m`` the bitmap. For
    column 3, ``v3a`` is what is unpacked first, ``l3`` the name, ``r3`` the rule if there is one, and ``x3``
    the value if the key or ``place`` includes the column.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._structs = 0
        self.namespace: dict[str, Any] = NAMES | {
            "dumps": orjson.dumps,
            # In the columns' order; each row's values replace those of the previous row.
            "blank": dict.fromkeys(table.image_names),
        }
        for index, name in enumerate(table.names):
            self.namespace[f"l{index}"] = name

    def rows(self, nulls: bytes, change: Change) -> str:
        """A loop over the rows of one pattern of NULLs."""
        columns = self._columns(nulls)
        lines = [
            "def made(d, p, end, found, images):",
            "    o, add = blank.copy(), found.append",
            f"    last = end - {self._least(columns)}",
            "    while p <= last:",
            *_indented(2, self._read(columns, "if m != nulls:\n    break")),
        ]
        if change is not Change.UPDATE:
            lines += _indented(2, self._appended(change, columns))
        else:
            lines += [
                "        before = dumps(o).decode()",
                f"        old_key = {self._key(columns)}",
                "        m = None",
                # If fewer bytes remain, the image has another pattern, with more NULLs.
                "        if p <= last:",
                *_indented(3, self._read(columns, "if m == nulls:", deeper=True)),
                *_indented(4, self._appended(change, columns)),
                "        if m != nulls:",
                "            after, key, p = images.image(d, p)",
                "            add((before, after, old_key, key, None))",
            ]
        return "\n".join([*lines, "    return p"])

    def known_image(self, nulls: bytes) -> str:
        """One image of a known pattern of NULLs."""
        columns = self._columns(nulls)
        return "\n".join(
            [
                "def made(d, p):",
                "    o = blank.copy()",
                *_indented(1, self._read(columns, "")),
                f"    return dumps(o).decode(), {self._key(columns)}, p",
            ]
        )

    def any_image(self) -> str:
        """One image of any pattern: each column is read by itself, if present."""
        size = self._table.bitmap_size
        lines = [
            "def made(d, p):",
            "    o = blank.copy()",
            f"    p += {self._table.head_size + size}",
            f'    m = from_bytes(d[p - {size}:p], "little")',
        ]
        lines += [f"    x{index} = None" for index in self._named]
        for index in range(len(self._table.fields)):
            lines.append(f"    if not m & {1 << index + self._table.first_bit}:")
            lines += _indented(2, self._read_columns([index], _Run(), is_kept=True))
        names, place = (
            ", ".join(f"l{index}: x{index}" for index in indexes)
            for indexes in (self._table.key, self._table.place)
        )
        key = self._key_text(f"{{{names}}}") if names else "None"
        key = self._placed(key, f"{{{place}}}")
        return "\n".join([*lines, f"    return dumps(o).decode(), {key}, p"])

    def _columns(self, nulls: bytes) -> list[int]:
        """The columns that are not NULL."""
        self.namespace["nulls"] = (
            int.from_bytes(nulls, "little") if len(nulls) in _BITMAPS else nulls
        )
        bits = int.from_bytes(nulls, "little") >> self._table.first_bit
        return [index for index in range(len(self._table.fields)) if not bits >> index & 1]

    def _least(self, columns: Sequence[int]) -> int:
        """The minimum size of an image in bytes: its values of variable size are empty."""
        fields = [self._table.fields[index] for index in columns]
        head_size = self._table.head_size + self._table.bitmap_size
        return head_size + sum(one.length_size or one.size for one in fields)

    def _read(self, columns: Sequence[int], test: str, *, deeper: bool = False) -> list[str]:
        """Lines that read an image into ``o``; ``test`` is placed after the line that reads the bitmap."""
        run = _Run()
        size, head_size = self._table.bitmap_size, self._table.head_size
        if head_size:
            run.add([f"{head_size}x"], [])
        run.add([_BITMAPS.get(size, f"{size}s")], ["m"])
        lines = self._read_columns(columns, run)
        # The first line unpacks, and reads the bitmap.
        rest = lines[1:]
        return [lines[0], *test.splitlines(), *(_indented(1, rest) if deeper else rest)]

    def _read_columns(
        self, columns: Sequence[int], run: _Run, *, is_kept: bool = False
    ) -> list[str]:
        lines: list[str] = []
        waiting: list[str] = []
        for index in columns:
            one = self._table.fields[index]
            if one.length_size:
                names = [f"n{index}{letter}" for letter in "ab"[: len(_LENGTHS[one.length_size])]]
                run.add(_LENGTHS[one.length_size], names)
                length = names[0] if len(names) == 1 else f"({names[1]} << 16 | {names[0]})"
                lines += [*self._unpacked(run), *waiting, f"s = p + {run.size}"]
                if one.is_packed:
                    lines += [f"if {length} > 250:", f"    {length}, s = packed(d, s - 1)"]
                lines.append(f"p = s + {length}")
                lines += self._kept(index, ["d[s:p]"], "", is_kept=is_kept)
                run, waiting = _Run(), []
                continue
            at = run.size
            letters = "abcdefghijklmnop"[: len(one.little or one.big)]
            names = [f"v{index}{letter}" for letter in letters]
            if one.little:
                run.add(one.little, names)
            else:
                run.add_big(one.big, names)
            raw = f"d[p + {at}:p + {run.size}]"
            waiting += self._kept(index, names, raw, is_kept=is_kept)
        if run.size:
            lines += [*self._unpacked(run), *waiting, f"p += {run.size}"]
        return lines

    def _unpacked(self, run: _Run) -> Iterator[str]:
        if run.little == ["B"]:
            yield f"{run.little_names[0]} = d[p]"
            return
        for order, formats, names in (
            ("<", run.little, run.little_names),
            (">", run.big, run.big_names),
        ):
            if names:
                name = f"u{self._structs}"
                self._structs += 1
                self.namespace[name] = Struct(order + "".join(formats)).unpack_from
                yield f"{', '.join(names)}, = {name}(d, p)"

    def _kept(self, index: int, names: Sequence[str], raw: str, *, is_kept: bool) -> Iterator[str]:
        """Lines that put a column's value into the image."""
        if index in self._table.hidden:
            return
        one = self._table.fields[index]
        self.namespace[f"c{index}"] = one.bound
        value = named(one.value, names, raw=raw, n=f"c{index}", size=f"n{index}a")
        if one.rule is not None:
            self.namespace[f"r{index}"] = one.rule
            value = f"r{index}({value})"
        if index in self._named and (is_kept or value != names[0]):
            yield f"x{index} = {value}"
            value = f"x{index}"
        yield f"o[l{index}] = {value}"

    def _appended(self, change: Change, columns: Sequence[int]) -> list[str]:
        row = change.value.format(image="dumps(o).decode()", key=self._key(columns))
        return [f"add(({row}))"]

    @property
    def _named(self) -> set[int]:
        """The columns whose values have names of their own."""
        return {*self._table.key, *self._table.place}

    def _key(self, columns: Sequence[int]) -> str:
        """The expression for the key's text and the text of ``place`` after it."""
        if not self._table.key:
            return "None"
        present = set(columns)
        members = (
            f"l{index}: {self._key_value(index) if index in present else None}"
            for index in self._table.place
        )
        return self._placed(self._own_key(columns), f"{{{', '.join(members)}}}")

    def _placed(self, key: str, place: str) -> str:
        """The expression for a key and, if there are any, the columns that choose the partition."""
        if not self._table.place:
            return key
        return f'{key} + "\\0" + dumps({place}).decode()'

    def _own_key(self, columns: Sequence[int]) -> str:
        """The expression for the text of the key's columns."""
        key = self._table.key
        fields = [self._table.fields[index] for index in key]
        present = set(columns)
        values = [self._key_value(index) if index in present else "None" for index in key]
        if not all(one.is_integer for one in fields) or "None" in values:
            members = zip(key, values, strict=True)
            return self._key_text(
                f"{{{', '.join(f'l{index}: {value}' for index, value in members)}}}"
            )
        pieces = []
        for n, (index, value) in enumerate(zip(key, values, strict=True)):
            label = orjson.dumps(self._table.names[index]).decode()
            self.namespace[f"k{index}"] = ("," if n else self._table.key_head) + label + ":"
            pieces.append(f"{{k{index}}}{{{value}}}")
        return "f'" + "".join(pieces) + "}}'"

    def _key_text(self, members: str) -> str:
        """The expression for the text of a key that is given as the source of a dict."""
        if self._table.key_head == "{":
            return f"dumps({members}).decode()"
        self.namespace["head"] = self._table.key_head
        return f"head + dumps({members})[1:].decode()"

    def _key_value(self, index: int) -> str:
        """The expression for a key's value: ``v3a`` for a plain integer, ``x3`` for any other."""
        one = self._table.fields[index]
        return f"v{index}a" if one.value == "$a" and one.rule is None else f"x{index}"


def _indented(depth: int, lines: Iterable[str]) -> list[str]:
    return ["    " * depth + line for line in lines]


_MOST_PATTERNS = 64
"""Maximum number of NULL patterns with a function of their own; others share a function that tests each bit."""
_MOST_COLUMNS = 8192
"""Maximum number of columns in all these functions together, so that a wide table has fewer functions."""


def _one_insert(data: bytes, at: int, _end: int, found: list[Row], images: Images) -> int:
    after, key, at = images.image(data, at)
    found.append((None, after, None, key, None))
    return at


def _one_delete(data: bytes, at: int, _end: int, found: list[Row], images: Images) -> int:
    before, key, at = images.image(data, at)
    found.append((before, None, key, None, None))
    return at


def _one_update(data: bytes, at: int, _end: int, found: list[Row], images: Images) -> int:
    before, old_key, at = images.image(data, at)
    after, new_key, at = images.image(data, at)
    found.append((before, after, old_key, new_key, None))
    return at


_ONE_BY_ONE: dict[Change, RowsFunction] = {
    Change.INSERT: _one_insert,
    Change.DELETE: _one_delete,
    Change.UPDATE: _one_update,
}
"""Functions for rows whose NULL pattern has no function of its own."""


class Patterns:
    """Makes the functions when rows need them."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._images: dict[bytes, ImageFunction] = {}
        self._any: ImageFunction | None = None
        self._room = min(_MOST_PATTERNS, _MOST_COLUMNS // len(table.fields))
        """Number of further functions allowed for NULL patterns."""

    def nulls(self, data: bytes, at: int) -> bytes:
        """The NULL bitmap of the row at an offset; raise IndexError if the bytes end before the bitmap does."""
        return read_bytes(data, at + self.table.head_size, self.table.bitmap_size)[0]

    def run(
        self, made: dict[bytes, RowsFunction], head: bytes, nulls: bytes, change: Change
    ) -> RowsFunction:
        """Return the function that reads rows with these NULLs; a new one is kept in ``made``."""
        run = made.get(head + nulls)
        if run is None:
            if not self._room:
                return _ONE_BY_ONE[change]
            self._room -= 1
            run = made[head + nulls] = rows_function(self.table, nulls, change)
        return run

    def image(self, data: bytes, at: int) -> tuple[str, str | None, int]:
        """One image with any NULL pattern."""
        begin, size = at + self.table.head_size, self.table.bitmap_size
        nulls = data[begin : begin + size]
        made = self._images.get(nulls)
        if made is not None:
            return made(data, at)
        if self._room and len(nulls) == size:
            self._room -= 1
            made = self._images[nulls] = image_function(self.table, nulls)
            return made(data, at)
        if self._any is None:
            self._any = image_function(self.table, None)
        return self._any(data, at)


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
