"""The types that a server of an old series supports."""

from collections.abc import Iterator

from tests.integration.worker.families import FAMILIES

_NOT_BEFORE: dict[str, tuple[int, int]] = {
    "gb18030": (5, 7),
    "utf16le": (5, 6),
    "vector": (9, 0),
    " srid ": (8, 0),
}


def known(series: str, family: str) -> list[tuple[str, list[str]]]:
    """The columns of a family and their values, as far as the series has them."""
    number = tuple(int(part) for part in series.split("."))
    return [
        (kind, values)
        for kind, values in (*FAMILIES[family](), *_JSON.get(family, ()))
        if not any(word in kind and number < since for word, since in _NOT_BEFORE.items())
        and (number >= (5, 6) or not _has_fraction(kind))
        and (number >= (5, 7) or kind != "json")
        for kind in [kind.replace("geomcollection", "geometrycollection")]
    ]


def in_words_of(series: str, statement: str) -> str:
    """A statement as a server of the series reads it."""
    if series == "5.5":
        return statement.replace("ST_GeomFromText", "GeomFromText").replace("(0)", "")
    return statement


def _has_fraction(kind: str) -> bool:
    return any(f"({digits})" in kind for digits in range(1, 7)) and kind.startswith(
        ("time", "datetime", "timestamp")
    )


def _places() -> Iterator[tuple[str, list[str]]]:
    yield (
        "json",
        ["""'{"a": [1, -2.5, "ä", null, true, 18446744073709551615, 1e300], "": {}}'""", "NULL"],
    )
    yield (
        "json",
        [
            "CAST(CAST('-12:34:56.5' AS TIME(6)) AS JSON)",
            "CAST(CAST('2018-01-02 03:04:05.6' AS DATETIME(6)) AS JSON)",
        ],
    )


_JSON = {"places": list(_places())}
