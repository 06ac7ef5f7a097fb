"""Conversion of JSON documents to text, with a function generated for each frequent set of member names.

Invariant: the text equals that of ``json_binary``, which also handles rare documents: large containers,
opaque values, names that change with every row. A generated function has the names of the document that it
was generated from, and expects its types; a value of another type is converted without the function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json.encoder import encode_basestring
from struct import Struct
from typing import Any

import orjson

from connectors.mysql.buffer import read_bytes, uint
from connectors.mysql.charsets import Charsets
from connectors.mysql.types import json_binary as plain
from connectors.mysql.types.decimals import written
from connectors.mysql.types.registry import (
    BinlogType,
    Convert,
    Field,
    FieldType,
    Form,
    Kind,
    Layout,
    MappedColumn,
    Modes,
    Reader,
    SqlType,
    by_metadata,
    function_of,
    register,
    sized,
    within,
)

ContainerFunction = Callable[[bytes, int, int], str]
"""Takes a document, a container's offset in it, and the container's depth; returns the container's text."""

_OFTEN = 16
"""Number of sampled containers of one kind before a function is generated for it."""
_EVERY = 8
"""Of the containers without a function, one in this many is sampled."""
_MOST_FUNCTIONS = 128
_MOST_COUNTED = 4096
_FREQUENT: set[bytes] = set()
"""The kinds of containers for which a function was generated for some column of this process.

Another column gets a function for such a kind at once, because the tables of many shards have similar
documents."""
_MOST_MEMBERS = 64
_MOST_ELEMENTS = 16


class Documents:
    """Converts the binary documents of a column to text; keeps the functions it generated."""

    def __init__(self) -> None:
        self._objects: dict[bytes, ContainerFunction] = {}
        """Functions by the offsets and lengths of an object's names; the function itself compares the names."""
        self._alike: dict[bytes, ContainerFunction] = {}
        """All functions of objects, by the names, too; ``_objects`` has only the first for each of its keys."""
        self._arrays: dict[int, ContainerFunction] = {}
        """Functions by the number of elements."""
        self._counts: dict[bytes, int] = {}
        self._turn = 0
        self._budget = [0]
        """The number of bytes of the document that may still be read; functions share this list."""

    def text(self, raw: bytes) -> str:
        """The text of a document, spaced as MySQL prints it."""
        if raw:
            self._budget[0] = len(raw)
            if raw[0] == plain.SMALL_OBJECT:
                made = self._objects.get(raw[5 : 5 + 4 * raw[1]], self._object)
                return made(raw, 1, 0)
            if raw[0] == plain.SMALL_ARRAY:
                return self._arrays.get(raw[1], self._array)(raw, 1, 0)
        return plain.document_text(raw)

    def _object(self, raw: bytes, at: int, depth: int) -> str:
        """The text of an object for which ``_objects`` has no function, or a function for other names."""
        count = raw[at] | raw[at + 1] << 8
        is_turn = self._is_turn()
        if not 0 < count <= _MOST_MEMBERS or not (is_turn or self._alike or _FREQUENT):
            return plain.value_text(raw, plain.SMALL_OBJECT, at, depth, self._budget)
        # A head of four bytes, four bytes for each name, three for each value; then the names themselves.
        values = 4 + 4 * count
        begin = values + 3 * count
        entries = raw[at + 4 : at + values]
        end = sum(_ENTRY.unpack_from(raw, at + values - 4))
        shape = entries + raw[at + begin : at + end]
        made = self._alike.get(shape)
        if made is not None:
            return made(raw, at, depth)
        text = plain.value_text(raw, plain.SMALL_OBJECT, at, depth, self._budget)
        if not is_turn and shape not in _FREQUENT:
            return text
        # The object is valid, since it could be read; but its names may be at any offsets.
        entry_spans = list(_ENTRY.iter_unpack(entries))
        if all(begin <= offset <= end - size for offset, size in entry_spans) and self._is_often(
            shape
        ):
            names = [str(raw[at + offset :][:size], "utf-8") for offset, size in entry_spans]
            source = _source(raw[at + values : at + begin : 3], names_slice=slice(begin, end))
            namespace = {"names": raw[at + begin : at + end], "otherwise": self._object}
            for n, name in enumerate(names):
                namespace[f"l{n}"] = ("{" if n == 0 else ", ") + encode_basestring(name) + ": "
            made = self._made(source, namespace)
            self._alike[shape] = made
            self._objects.setdefault(entries, made)
        return text

    def _array(self, raw: bytes, at: int, depth: int) -> str:
        """The text of an array for which ``_arrays`` has no function, or one that does not fit."""
        count = raw[at] | raw[at + 1] << 8
        types = raw[at + 4 : at + 4 + 3 * count : 3]
        if count > _MOST_ELEMENTS and types == _INT16 * count:
            words = raw[at + 4 : at + 4 + 3 * count]
            if len(words) == 3 * count and depth <= plain.MAX_DEPTH:
                plain.spend(self._budget, count)
                # Python prints a list of integers as MySQL does.
                return str([word for (word,) in _WORD.iter_unpack(words)])
        text = plain.value_text(raw, plain.SMALL_ARRAY, at, depth, self._budget)
        kind = raw[at : at + 1]
        if (
            0 < count <= _MOST_ELEMENTS
            and (kind in _FREQUENT or self._is_turn())
            and self._is_often(kind)
        ):
            namespace = {"otherwise": self._array}
            self._arrays[count] = self._made(_source(types, names_slice=None), namespace)
        return text

    def _entry(self, raw: bytes, at: int, kind: int, word: int, depth: int) -> str:
        """The text of a value whose type a function does not expect."""
        if kind == plain.SMALL_OBJECT:
            return self._object(raw, at + word, depth + 1)
        if kind == plain.SMALL_ARRAY:
            return self._array(raw, at + word, depth + 1)
        return plain.entry_text(raw, at, plain.SMALL, kind, word, depth, self._budget)

    def _is_turn(self) -> bool:
        self._turn = (self._turn + 1) % _EVERY
        return not self._turn

    def _is_often(self, shape: bytes) -> bool:
        seen = self._counts.get(shape, 0) + 1
        if seen < _OFTEN and shape not in _FREQUENT:
            if len(self._counts) >= _MOST_COUNTED:
                self._counts.clear()
            self._counts[shape] = seen
            return False
        if len(self._alike) + len(self._arrays) >= _MOST_FUNCTIONS:
            self._objects.clear()
            self._alike.clear()
            self._arrays.clear()
        self._counts.pop(shape, None)
        if len(_FREQUENT) >= _MOST_COUNTED:
            _FREQUENT.clear()
        _FREQUENT.add(shape)
        return True

    def _made(self, source: str, namespace: dict[str, Any]) -> ContainerFunction:
        namespace |= _NAMES | {
            "objects": self._objects,
            "object": self._object,
            "arrays": self._arrays,
            "array": self._array,
            "other": self._entry,
            "left": self._budget,
        }
        made: ContainerFunction = function_of(source, namespace)
        return made


_ENTRY = Struct("<HH")
_WORD = Struct("<xh")
_INT16 = bytes([plain.INT16])


def _double(value: float) -> str:
    # In this range orjson prints a number as MySQL does, in a fifth of the time that repr takes.
    return orjson.dumps(value).decode() if 1e-4 <= value < 1e15 else plain.double_text(value)


_NAMES: dict[str, Any] = {
    "layout": Struct,
    "quoted": encode_basestring,
    "dumps": orjson.dumps,
    "double": _double,
    "literals": plain.LITERALS,
} | {f"read_{format_}": Struct(f"<{format_}").unpack_from for format_ in "iIqQd"}

_EXPRESSIONS = {
    plain.INT16: "w{n}",
    plain.UINT16: "w{n}",
    plain.LITERAL: "literals[w{n} & 255]",
    plain.INT32: "read_i(raw, at + w{n})[0]",
    plain.UINT32: "read_I(raw, at + w{n})[0]",
    plain.INT64: "read_q(raw, at + w{n})[0]",
    plain.UINT64: "read_Q(raw, at + w{n})[0]",
    plain.DOUBLE: "double(read_d(raw, at + w{n})[0])",
    plain.SMALL_OBJECT: (
        "objects.get(raw[(s := at + w{n}) + 4 : s + 4 + 4 * raw[s]], object)(raw, s, depth + 1)"
    ),
    plain.SMALL_ARRAY: "arrays.get(raw[(s := at + w{n})], array)(raw, s, depth + 1)",
}
_LONG = 40
"""Strings of at least this many bytes are quoted faster by orjson, although it returns bytes."""


def _source(types: bytes, *, names_slice: slice | None) -> str:
    """The source of a function for containers whose entries have these types.

    ``names_slice`` is the range of an object's names; None for arrays. In the source ``t0`` and ``w0`` are the
    type and the word of the first entry, and ``x0`` is its text if it is a string.
    """
    words = "".join("Bh" if kind == plain.INT16 else "BH" for kind in types)
    names_size = 0 if names_slice is None else 4 * len(types)
    variables = "".join(f", t{n}, w{n}" for n in range(len(types)))
    # A container that a function gets may have another high byte in its count, or other names.
    unlike = f"count != {len(types)}"
    if names_slice is not None:
        unlike += f" or raw[at + {names_slice.start}:at + {names_slice.stop}] != names"
    lines = [
        f"entries = layout('<HH{names_size}x{words}').unpack_from",
        "def made(raw, at, depth):",
        f"    count, size{variables} = entries(raw, at)",
        f"    if {unlike}:",
        "        return otherwise(raw, at, depth)",
        "    if depth:",
        f"        left[0] -= {len(types)}",
        f"        if depth > {plain.MAX_DEPTH} or left[0] < 0:",
        "            raise ValueError('a JSON document is nested too deep, or in itself')",
        "    last = len(raw)",
        "    if at + size > last:",
        "        raise IndexError('a JSON container is longer than its document')",
    ]
    pieces = []
    for n, kind in enumerate(types):
        other = f"other(raw, at, t{n}, w{n} & 65535, depth)"
        if kind == plain.STRING:
            lines += _string(n, other)
            text = f"{{x{n}}}"
        elif kind in _EXPRESSIONS:
            text = f"{{{_EXPRESSIONS[kind].format(n=n)} if t{n} == {kind} else {other}}}"
        else:
            text = f"{{{other}}}"
        pieces.append(text if names_slice is None else f"{{l{n}}}{text}")
    whole = "[" + ", ".join(pieces) + "]" if names_slice is None else "".join(pieces) + "}}"
    return "\n".join([*lines, f"    return f'{whole}'"])


def _string(n: int, other: str) -> list[str]:
    return [
        f"    s = at + w{n}",
        f"    if t{n} == {plain.STRING} and raw[s] < 128:",
        "        e = s + 1 + raw[s]",
        "        if e > last:",
        "            raise IndexError('a JSON string ends past the end of its document')",
        f"        x{n} = raw[s + 1 : e].decode()",
        f"        x{n} = quoted(x{n}) if e - s < {_LONG} else dumps(x{n}).decode()",
        "    else:",
        f"        x{n} = {other}",
    ]


# --- the type ---------------------------------------------------------------------------------------


def _reader(column: MappedColumn, _charsets: Charsets) -> Reader:
    """A length, then the document; the document is empty if a NULL was converted to NOT NULL."""
    length_size = column.metadata

    def read(data: bytes, at: int) -> tuple[str, int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return plain.document_text(raw), end

    return read


def _field(column: MappedColumn, _charsets: Charsets) -> Field:
    return Field(value="$n($a)", length_size=column.metadata, bound=Documents().text)


def _packet_field(_column: MappedColumn, _charsets: Charsets) -> Field:
    # The server prints a document just as ``json_binary`` does.
    return Field(value="$a.decode()")


def _packet_image(column: MappedColumn) -> Convert:
    image = sized(column)
    return lambda raw: image(plain.WRITTEN + raw)


def _layout(_kind: Kind, mariadb: bool) -> Layout | None:
    """None in MariaDB, where JSON is text."""
    return None if mariadb else (FieldType.JSON, 4)


_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|[ ]+')


def _connect(_kind: Kind, _nullable: bool, _modes: Modes) -> Form:
    return Form({"type": "string", "name": "io.debezium.data.Json", "version": 1}, _without_spaces)


def _without_spaces(value: str) -> str:
    """A document without spaces between its parts."""
    return _SPACE.sub(lambda found: found[1] or "", value)


def _maxwell(value: Any) -> Any:
    """The document itself; text that orjson cannot parse, such as a very deep document, stays text."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return orjson.Fragment(value)


register(
    BinlogType(
        code=FieldType.JSON,
        reader=_reader,
        field=_field,
        extent=by_metadata,
        metadata_size=1,
        is_possible=within(1, 4),
        is_blob=True,
        text=lambda _column, _charsets: "json",
        packet_field=_packet_field,
        packet_image=_packet_image,
    ),
    named=(
        SqlType(
            name="json",
            since=((5, 7, 8), (10, 2, 7)),
            layout=_layout,
            form="text",
            connect=_connect,
            jdbc=12,
            maxwell=lambda _: _maxwell,
            maxwell_value=lambda _: written,
        ),
    ),
)
