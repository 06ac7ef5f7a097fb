"""Well-known text as JTS writes it."""

from __future__ import annotations

import struct

import pytest

from connectors.mysql.types.geometries import well_known_bytes, well_known_text


def wkb(kind: int, body: bytes) -> bytes:
    return struct.pack("<BI", 1, kind) + body


def line(*numbers: float) -> bytes:
    return struct.pack(f"<I{len(numbers)}d", len(numbers) // 2, *numbers)


POINT = wkb(1, struct.pack("<2d", 1, 2.5))
RING = line(0, 0, 1, 0, 1, 1, 0, 0)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (POINT, "POINT (1 2.5)"),
        (wkb(1, struct.pack("<2d", 1e20, -1e-10)), "POINT (100000000000000000000 -0.0000000001)"),
        (struct.pack(">BI2d", 0, 1, 3, 4), "POINT (3 4)"),
        (wkb(2, line(0, 0, 1, 1)), "LINESTRING (0 0, 1 1)"),
        (wkb(3, struct.pack("<I", 2) + RING + RING),
         "POLYGON ((0 0, 1 0, 1 1, 0 0), (0 0, 1 0, 1 1, 0 0))"),
        (wkb(4, struct.pack("<I", 2) + POINT + POINT), "MULTIPOINT ((1 2.5), (1 2.5))"),
        (wkb(5, struct.pack("<I", 1) + wkb(2, line(0, 0, 1, 1))), "MULTILINESTRING ((0 0, 1 1))"),
        (wkb(6, struct.pack("<I", 1) + wkb(3, struct.pack("<I", 1) + RING)),
         "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))"),
        (wkb(7, struct.pack("<I", 2) + POINT + wkb(7, struct.pack("<I", 0))),
         "GEOMETRYCOLLECTION (POINT (1 2.5), GEOMETRYCOLLECTION EMPTY)"),
    ],
)  # fmt: skip
def test_each_kind_of_geometry(raw: bytes, text: str) -> None:
    assert well_known_text(raw) == text
    assert well_known_text(well_known_bytes(text)) == text


@pytest.mark.parametrize(
    "text", ["", "POINT", "POINT (1 2", "POINT (1 2) 3", "POINT (1 x)", "LINE (1 2)", "POINT (1 2]"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not well-known text"):
        well_known_bytes(text)


@pytest.mark.parametrize("raw", [b"", POINT[:-1], wkb(17, b"")])
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="is not well-known binary"):
        well_known_text(raw)
