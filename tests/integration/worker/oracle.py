"""A table's rows as MySQL prints them: the values that our decoder must return."""

import base64
import struct
from datetime import date
from typing import Any

_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_TEXT = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
_WHOLE = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
_GEOMETRIES = {
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geomcollection", "geometrycollection",
}  # fmt: skip
# MariaDB's; in the binlog they are BINARY.
_ADDRESSES = {"inet4": 4, "inet6": 16, "uuid": 16}


def rows_of(cursor: Any, database: str, table: str, order_by: str = "id") -> list[dict[str, Any]]:
    """The table's rows in their wire form; FLOAT as its exact value."""
    # Not column_type: it is a LONGTEXT, and of the temporary table that it needs MariaDB 11.8 dies at times.
    cursor.execute(
        "SELECT column_name, data_type, numeric_precision FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        (database, table),
    )
    columns = [(name, kind.lower(), bits) for name, kind, bits in cursor.fetchall()]
    chosen = ", ".join(_expression(name, kind) for name, kind, _ in columns)
    cursor.execute(f"SELECT {chosen} FROM `{database}`.`{table}` ORDER BY {order_by}")
    return [
        {
            name: None if text is None else _value(text, kind, bits)
            for (name, kind, bits), text in zip(columns, row, strict=True)
        }
        for row in cursor.fetchall()
    ]


def _expression(name: str, kind: str) -> str:
    column = f"`{name}`"
    if kind in _BYTES | _GEOMETRIES | {"vector"}:
        return f"HEX({column})"
    if kind in _ADDRESSES:
        return f"HEX(CAST({column} AS BINARY({_ADDRESSES[kind]})))"
    if kind == "bit":
        return f"HEX(CAST({column} AS UNSIGNED))"
    if kind in _TEXT:
        return f"HEX(CONVERT({column} USING utf8mb4))"
    if kind == "float":
        # As a double, in words that a server of 2010 knows too.
        return f"CAST({column} * 1e0 AS CHAR)"
    return f"CAST({column} AS CHAR)"


def _value(text: str, kind: str, bits: int) -> Any:
    if kind in _WHOLE:
        return int(text)
    if kind in ("float", "double"):
        return float(text)
    if kind == "bit":
        return _base64(int(text, 16).to_bytes((int(bits) + 7) // 8, "big"))
    if kind in _BYTES or kind in _ADDRESSES:
        return _base64(bytes.fromhex(text))
    if kind in _TEXT:
        return bytes.fromhex(text).decode()
    if kind in _GEOMETRIES:
        raw = bytes.fromhex(text)
        return {"srid": int.from_bytes(raw[:4], "little"), "wkb": _base64(raw[4:])}
    if kind == "vector":
        raw = bytes.fromhex(text)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    if kind in ("datetime", "timestamp"):
        return _moment(text, utc=kind == "timestamp")
    return text


def _moment(text: str, *, utc: bool) -> str:
    try:
        # The year 0 is as long as the year 1, and Python has only that.
        date.fromisoformat(text[:10].replace("0000-", "0001-"))
    except ValueError:
        return text
    return text.replace(" ", "T") + ("Z" if utc else "")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def same(ours: Any, theirs: Any, kind: str) -> bool:
    """Whether a decoded value equals the server's; floats compare by bits, as -0.0 equals 0.0."""
    if ours is None or theirs is None:
        return ours is theirs
    if kind == "float":
        return struct.pack("<f", ours) == struct.pack("<f", theirs)
    if kind == "double":
        return struct.pack("<d", ours) == struct.pack("<d", theirs)
    if kind.startswith("vector"):
        return [struct.pack("<f", v) for v in ours] == [struct.pack("<f", v) for v in theirs]
    return type(ours) is type(theirs) and bool(ours == theirs)
