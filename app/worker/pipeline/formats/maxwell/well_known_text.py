"""Geometries as well-known text, from well-known binary, and back.

Source: OGC Simple Feature Access, 06-103r4, chapters 7 and 8; spaces and numbers are as JTS writes them, which
Maxwell uses: ``POINT (1 2.5)``, and no exponents.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Decimal

_NAMES = {
    1: "POINT", 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT", 5: "MULTILINESTRING", 6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}  # fmt: skip
_KINDS = {name: kind for kind, name in _NAMES.items()}
_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
_MULTI = 3
"""The kind of several geometries is greater by this than theirs."""
_WORD = re.compile(r"[(),]|[^\s(),]+")


def well_known_text(wkb: bytes) -> str:
    """Return the text of a geometry; raise ValueError if it is not well-known binary of two dimensions."""
    try:
        return _Reader(wkb).geometry()
    except (struct.error, KeyError) as error:
        raise ValueError(f"a geometry is not well-known binary: {error!r}") from None


def well_known_bytes(text: str) -> bytes:
    """Return the binary of a text that ``well_known_text`` writes; raise ValueError for any other."""
    reader = _TextReader(text)
    try:
        return reader.whole()
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(f"a geometry is not well-known text: {error!r}") from None


class _Reader:
    def __init__(self, wkb: bytes) -> None:
        self._wkb, self._at, self._order = wkb, 0, "<"

    def geometry(self) -> str:
        """The text of the geometry that begins here."""
        kind = self._head()
        return f"{_NAMES[kind]} {self._body(kind)}"

    def _head(self) -> int:
        (order,) = self._read("B")
        self._order = "<" if order else ">"
        (kind,) = self._read("I")
        return int(kind)

    def _body(self, kind: int) -> str:
        """The text after the name."""
        if kind == _POINT:
            return f"({self._position()})"
        (count,) = self._read("I")
        parts = [self._part(kind) for _ in range(int(count))]
        return f"({', '.join(parts)})" if parts else "EMPTY"

    def _part(self, kind: int) -> str:
        if kind == _LINE:
            return self._position()
        if kind == _POLYGON:
            return self._body(_LINE)
        if kind == _COLLECTION:
            return self.geometry()
        return self._body(self._head())

    def _position(self) -> str:
        return " ".join(map(_number, self._read("dd")))

    def _read(self, form: str) -> tuple[float, ...]:
        packed = self._order + form
        found = struct.unpack_from(packed, self._wkb, self._at)
        self._at += struct.calcsize(packed)
        return found


def _number(value: float) -> str:
    text = format(Decimal(repr(value)), "f")
    return text.removesuffix(".0")


class _TextReader:
    def __init__(self, text: str) -> None:
        self._words: list[str] = _WORD.findall(text)
        self._at = 0

    def whole(self) -> bytes:
        """The binary of a geometry after which nothing follows."""
        found = self._geometry()
        if self._at != len(self._words):
            raise ValueError("something follows a geometry")
        return found

    def _geometry(self) -> bytes:
        return self._of(_KINDS[self._next()])

    def _of(self, kind: int) -> bytes:
        head = struct.pack("<BI", 1, kind)
        if kind == _POINT:
            return head + self._in_parentheses(self._position)[0]
        if self._words[self._at] == "EMPTY":
            self._at += 1
            return head + struct.pack("<I", 0)
        parts = self._in_parentheses(lambda: self._part(kind))
        return head + struct.pack("<I", len(parts)) + b"".join(parts)

    def _part(self, kind: int) -> bytes:
        if kind == _LINE:
            return self._position()
        if kind == _POLYGON:
            positions = self._in_parentheses(self._position)
            return struct.pack("<I", len(positions)) + b"".join(positions)
        # The parts of the others are whole geometries; only those of a collection have a name.
        return self._geometry() if kind == _COLLECTION else self._of(kind - _MULTI)

    def _in_parentheses(self, part: Callable[[], bytes]) -> list[bytes]:
        """The parts, of which at least one is there, between parentheses and with commas between them."""
        self._expect("(")
        found = [part()]
        while (word := self._next()) == ",":
            found.append(part())
        if word != ")":
            raise ValueError(f"a geometry has {word!r} after a part")
        return found

    def _position(self) -> bytes:
        return struct.pack("<dd", float(self._next()), float(self._next()))

    def _expect(self, wanted: str) -> None:
        if (word := self._next()) != wanted:
            raise ValueError(f"a geometry has {word!r} in place of {wanted!r}")

    def _next(self) -> str:
        self._at += 1
        return self._words[self._at - 1]
