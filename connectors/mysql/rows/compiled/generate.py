"""Generator of the functions that convert row images to JSON text.

Invariant: neighbouring values of fixed size are unpacked at once, with the NULL bitmap before them
and the length after them. Code for known NULLs tests no column; code for any NULLs tests each column.
A value read past the end may be short without an error, so the caller checks where the rows end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from struct import Struct, calcsize
from typing import Any, Protocol

import orjson

from connectors.mysql.types.compile import function_of
from connectors.mysql.types.decimals import named
from connectors.mysql.types.registry import NAMES, Field

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
