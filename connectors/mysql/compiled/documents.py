"""JSON documents to text, with a function generated for each set of member names that comes often.

The law: the text is that of ``values.documents``, which also takes what is rare: large containers, opaque
values, names that change with every row. A function knows the names, and expects the types of the document it
was made from; a value of another type is read the plain way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from struct import Struct
from typing import Any

import orjson

from connectors.mysql.compiled.sources import function_of
from connectors.mysql.values import documents as plain

ContainerFunction = Callable[[bytes, int, int], str]
"""From a document, the offset of a container in it, and its depth, to the container's text."""

_OFTEN = 100
"""Containers of one kind that come before a function is made for it."""
_MOST_FUNCTIONS = 128
_MOST_COUNTED = 4096
_MOST_ENTRIES = 64


class Documents:
    """Turns the binary documents of a column into text; remembers the functions it made."""

    def __init__(self) -> None:
        self._ends: dict[bytes, int] = {}
        """Where names end, counted from the container's begin, by their offsets and lengths."""
        self._objects: dict[bytes, ContainerFunction] = {}
        self._arrays: dict[int, ContainerFunction] = {}
        self._counts: dict[bytes, int] = {}

    def text(self, raw: bytes) -> str:
        """The text of a document, spaced as MySQL prints it."""
        if raw:
            if raw[0] == plain.SMALL_OBJECT:
                return self._object(raw, 1, 0)
            if raw[0] == plain.SMALL_ARRAY:
                return self._array(raw, 1, 0)
        return plain.document_text(raw)

    def _object(self, raw: bytes, at: int, depth: int) -> str:
        # A head of four bytes, four for each name, three for each value; then the names themselves.
        count = raw[at]
        values = at + 4 + 4 * count
        names = raw[at + 4 : values]
        end = self._ends.get(names)
        if end is not None:
            made = self._objects.get(names + raw[values + 3 * count : at + end])
            # Of 256 members and more, this is but the low byte of their count.
            if made is not None and not raw[at + 1]:
                return made(raw, at, depth)
        text = plain.value_text(raw, plain.SMALL_OBJECT, at, depth)
        self._note_object(raw, at)
        return text

    def _note_object(self, raw: bytes, at: int) -> None:
        """Make a function for objects with these names, if they come often; the object is a sound one."""
        count = raw[at] | raw[at + 1] << 8
        if not 0 < count <= _MOST_ENTRIES:
            return
        values = 4 + 4 * count
        begin = values + 3 * count
        entries = raw[at + 4 : at + values]
        places = list(Struct("<HH").iter_unpack(entries))
        end = sum(places[-1])
        if any(offset < begin or offset + size > end for offset, size in places):
            return
        shape = entries + raw[at + begin : at + end]
        if self._is_often(shape):
            names = [str(raw[at + offset :][:size], "utf-8") for offset, size in places]
            self._ends[entries] = end
            self._objects[shape] = self._made(names, raw[at + values : at + begin : 3])

    def _array(self, raw: bytes, at: int, depth: int) -> str:
        made = self._arrays.get(raw[at])
        if made is not None and not raw[at + 1]:
            return made(raw, at, depth)
        text = plain.value_text(raw, plain.SMALL_ARRAY, at, depth)
        count = raw[at] | raw[at + 1] << 8
        if 0 < count <= _MOST_ENTRIES and self._is_often(raw[at : at + 2]):
            self._arrays[count] = self._made(None, raw[at + 4 : at + 4 + 3 * count : 3])
        return text

    def _entry(self, raw: bytes, at: int, kind: int, word: int, depth: int) -> str:
        """A value that is not of the type that was expected there."""
        if kind == plain.SMALL_OBJECT:
            return self._object(raw, at + word, depth + 1)
        if kind == plain.SMALL_ARRAY:
            return self._array(raw, at + word, depth + 1)
        return plain.entry_text(raw, at, plain.SMALL, kind, word, depth)

    def _is_often(self, shape: bytes) -> bool:
        seen = self._counts.get(shape, 0) + 1
        if seen < _OFTEN:
            if len(self._counts) >= _MOST_COUNTED:
                self._counts.clear()
            self._counts[shape] = seen
            return False
        if len(self._objects) + len(self._arrays) >= _MOST_FUNCTIONS:
            self._ends.clear()
            self._objects.clear()
            self._arrays.clear()
        self._counts.pop(shape, None)
        return True

    def _made(self, names: Sequence[str] | None, types: bytes) -> ContainerFunction:
        namespace = _NAMES | {"object": self._object, "array": self._array, "other": self._entry}
        for n, name in enumerate(names or ()):
            namespace[f"l{n}"] = ("{" if n == 0 else ", ") + encode_basestring(name) + ": "
        made: ContainerFunction = function_of(_source(types, named=names is not None), namespace)
        return made


def _double(value: float) -> str:
    # In this range orjson writes what MySQL does, at a fifth of what repr takes.
    return orjson.dumps(value).decode() if 1e-4 <= value < 1e15 else plain.double_text(value)


_NAMES: dict[str, Any] = {
    "layout": Struct,
    "quoted": encode_basestring,
    "dumps": orjson.dumps,
    "double": _double,
    "literals": plain.LITERALS,
    "deepest": plain.MAX_DEPTH,
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
    plain.SMALL_OBJECT: "object(raw, at + w{n}, depth + 1)",
    plain.SMALL_ARRAY: "array(raw, at + w{n}, depth + 1)",
}
_LONG = 40
"""Bytes from which on orjson quotes faster, though it makes bytes."""


def _source(types: bytes, *, named: bool) -> str:
    """A container's function: ``t0`` and ``w0`` are type and word of its first entry, ``x0`` a string."""
    words = "".join("Bh" if kind == plain.INT16 else "BH" for kind in types)
    names_size = 4 * len(types) if named else 0
    variables = "".join(f", t{n}, w{n}" for n in range(len(types)))
    lines = [
        "def made(raw, at, depth):",
        "    if depth > deepest:",
        "        raise ValueError('a JSON document is nested too deep')",
        f"    size{variables} = entries(raw, at + 2)",
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
        pieces.append(f"{{l{n}}}{text}" if named else text)
    whole = "".join(pieces) + "}}" if named else "[" + ", ".join(pieces) + "]"
    layout = f"layout('<H{names_size}x{words}').unpack_from"
    return "\n".join([f"entries = {layout}", *lines, f"    return f'{whole}'"])


def _string(n: int, other: str) -> list[str]:
    return [
        f"    s = at + w{n}",
        f"    if t{n} == {plain.STRING} and raw[s] < 128:",
        "        e = s + 1 + raw[s]",
        "        if e > last:",
        "            raise IndexError('a JSON string ends behind its document')",
        f"        x{n} = raw[s + 1 : e].decode()",
        f"        x{n} = quoted(x{n}) if e - s < {_LONG} else dumps(x{n}).decode()",
        "    else:",
        f"        x{n} = {other}",
    ]
