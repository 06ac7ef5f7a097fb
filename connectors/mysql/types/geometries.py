"""Geometries.

Invariant: a geometry keeps its SRID and its bytes in stored axis order.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from connectors.mysql.buffer import read_bytes, uint
from connectors.mysql.charsets import Charsets
from connectors.mysql.server_version import Server, since
from connectors.mysql.types.registry import (
    BinlogType,
    FieldType,
    Form,
    Kind,
    Listed,
    MappedColumn,
    Modes,
    Reader,
    Schema,
    SqlType,
    by_metadata,
    printed_as,
    register,
    sized,
    within,
)
from connectors.mysql.types.strings import latin_text
from connectors.mysql.types.type_spec import TypeSpec

_RENAMED = "geometrycollection"
"""The name of ``geomcollection`` in MariaDB, and in MySQL before 8.0."""
GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection",
)  # fmt: skip
"""The names of the types, in the order of their numbers."""


def is_geometry(name: str) -> bool:
    """Return whether a name is that of a geometry type, in any version."""
    return name in GEOMETRIES or name == _RENAMED


def _reader(column: MappedColumn, _charsets: Charsets) -> Reader:
    """A length, four bytes of SRID, then WKB."""
    length_size = column.metadata

    def read(data: bytes, at: int) -> tuple[dict[str, int | str], int]:
        raw, end = read_bytes(data, at + length_size, uint(data, at, length_size))
        return {"srid": uint(raw, 0, 4), "wkb": base64.b64encode(raw[4:]).decode()}, end

    return read


def _text(column: MappedColumn, _charsets: Charsets) -> str:
    known = column.geometry_type is not None and column.geometry_type < len(GEOMETRIES)
    return GEOMETRIES[column.geometry_type or 0] if known else "geometry"


def _printed_collection(_spec: TypeSpec, server: Server) -> str:
    shortened = since(server, mysql=(8, 0, 11), mariadb=None)
    return "geomcollection" if shortened else "geometrycollection"


# --- records in other formats -----------------------------------------------------------------------------


def _avro(_kind: Kind) -> Schema:
    fields = [{"name": "srid", "type": "long"}, {"name": "wkb", "type": "bytes"}]
    return {"type": "record", "name": "Geometry", "fields": fields}


def _avro_value(value: Any) -> Any:
    return {"srid": value["srid"], "wkb": base64.b64decode(value["wkb"])}


def _connect_point(value: Any) -> Any:
    wkb = base64.b64decode(value["wkb"])
    x, y = struct.unpack_from("<dd" if wkb[0] else ">dd", wkb, 5)
    return {"x": x, "y": y, **_connect_geometry(value)}


def _connect_geometry(value: Any) -> Any:
    return {"wkb": value["wkb"], "srid": value["srid"] or None}


def _struct(name: str, doc: str, *fields: Schema) -> Schema:
    return {"type": "struct", "fields": list(fields), "name": name, "version": 1, "doc": doc}


def _field(name: str, kind: str, *, optional: bool) -> Schema:
    return {"type": kind, "optional": optional, "field": name}


_POINT_SCHEMA = _struct(
    "io.debezium.data.geometry.Point", "Geometry (POINT)",
    _field("x", "double", optional=False), _field("y", "double", optional=False),
    _field("wkb", "bytes", optional=True), _field("srid", "int32", optional=True),
)  # fmt: skip
_GEOMETRY_SCHEMA = _struct(
    "io.debezium.data.geometry.Geometry", "Geometry",
    _field("wkb", "bytes", optional=False), _field("srid", "int32", optional=True),
)  # fmt: skip


def _connect(kind: Kind, _nullable: bool, _modes: Modes) -> Form:
    if kind.base == "point":
        return Form(_POINT_SCHEMA, _connect_point)
    return Form(_GEOMETRY_SCHEMA, _connect_geometry)


def _canal(value: Any) -> str:
    """The bytes as MySQL stores them: the SRID, four bytes, before the WKB."""
    srid = int(value["srid"]).to_bytes(4, "little")
    return latin_text(srid + base64.b64decode(value["wkb"]))


def _of_canal(text: str) -> dict[str, Any]:
    raw = text.encode("latin-1")
    return {
        "srid": int.from_bytes(raw[:4], "little"), "wkb": base64.b64encode(raw[4:]).decode(),
    }  # fmt: skip


def _maxwell(value: Any) -> str:
    return well_known_text(base64.b64decode(value["wkb"]))


def _of_maxwell(value: str) -> dict[str, Any]:
    """A geometry with SRID 0, since Maxwell's records lack the SRID."""
    return {"srid": 0, "wkb": base64.b64encode(well_known_bytes(value)).decode()}


# --- well-known text, from well-known binary, and back ------------------------------------------------------

_NAMES_BY_NUMBER = {
    1: "POINT", 2: "LINESTRING", 3: "POLYGON", 4: "MULTIPOINT", 5: "MULTILINESTRING", 6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}  # fmt: skip
_KINDS = {name: kind for kind, name in _NAMES_BY_NUMBER.items()}
_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
_MULTI = 3
"""The difference between the kind of a multi-geometry and the kind of its parts."""
_WORD = re.compile(r"[(),]|[^\s(),]+")


def well_known_text(wkb: bytes) -> str:
    """Return the text of a geometry; raise ValueError if it is not well-known binary of two dimensions.

    Source: OGC Simple Feature Access, 06-103r4, chapters 7 and 8. Spaces and numbers are those of JTS, which
    Maxwell uses: ``POINT (1 2.5)``, and no exponents.
    """
    try:
        return _BinaryReader(wkb).geometry()
    except (struct.error, KeyError) as error:
        raise ValueError(f"a geometry is not well-known binary: {error!r}") from None


def well_known_bytes(text: str) -> bytes:
    """Return the binary of a text that ``well_known_text`` writes; raise ValueError for any other."""
    reader = _TextReader(text)
    try:
        return reader.whole()
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(f"a geometry is not well-known text: {error!r}") from None


class _BinaryReader:
    def __init__(self, wkb: bytes) -> None:
        self._wkb, self._at, self._order = wkb, 0, "<"

    def geometry(self) -> str:
        """The text of the geometry that begins here."""
        kind = self._head()
        return f"{_NAMES_BY_NUMBER[kind]} {self._body(kind)}"

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
        """The binary of the geometry; raise ValueError if something follows it."""
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
        # The parts of any other kind are whole geometries; only a collection's parts have a name.
        return self._geometry() if kind == _COLLECTION else self._of(kind - _MULTI)

    def _in_parentheses(self, part: Callable[[], bytes]) -> list[bytes]:
        """One or more parts in parentheses, with commas between them."""
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


register(
    BinlogType(
        code=FieldType.GEOMETRY,
        reader=_reader,
        extent=by_metadata,
        metadata_size=1,
        is_possible=within(1, 4),
        listed=Listed.MARIADB_TEXTS,
        is_blob=True,
        text=_text,
        packet_image=sized,
    ),
    named=(
        SqlType(
            name=name,
            since=((8, 0, 11), None) if name == "geomcollection" else ((0, 0, 0), (0, 0, 0)),
            printed=_printed_collection if name.endswith("collection") else printed_as(name),
            layout=lambda _kind, _mariadb: (FieldType.GEOMETRY, 4),
            form="geometry",
            avro=_avro,
            avro_value=lambda _: _avro_value,
            connect=_connect,
            jdbc=2004,
            canal_text=lambda _: _canal,
            canal_value=lambda _: _of_canal,
            maxwell=lambda _: _maxwell,
            maxwell_value=lambda _: _of_maxwell,
        )
        for name in (*GEOMETRIES, _RENAMED)
    ),
)
