"""Geometries as well-known text, from well-known binary.

Source: OGC Simple Feature Access, 06-103r4, chapters 7 and 8; spaces and numbers are as JTS writes them, which
Maxwell uses: ``POINT (1 2.5)``, and no exponents.
"""

from __future__ import annotations

import struct
from decimal import Decimal

_NAMES = {
    1: "POINT", 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT", 5: "MULTILINESTRING", 6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}  # fmt: skip
_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7


def well_known_text(wkb: bytes) -> str:
    """Return the text of a geometry; raise ValueError if it is not well-known binary of two dimensions."""
    try:
        return _Reader(wkb).geometry()
    except (struct.error, KeyError) as error:
        raise ValueError(f"a geometry is not well-known binary: {error!r}") from None


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
