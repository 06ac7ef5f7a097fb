"""Turning the bytes of a MySQL character set into text, exactly as the server means them.

The law: a character set we have no exact codec for is refused by name; it is never read as another one.
Source: MySQL manual, "Supported Character Sets and Collations"; Python's codecs were compared by name.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

BINARY = "binary"

TextDecoder = Callable[[bytes], str]

_CODECS = {
    "ascii": "ascii",
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "big5": "big5",
    "euckr": "euc-kr",
    "cp932": "cp932",
}


def _latin1(data: bytes) -> str:
    """MySQL's latin1 is cp1252, with the five bytes that cp1252 leaves open as the same code points."""
    return codecs.charmap_decode(data, "strict", _LATIN1)[0]


_LATIN1 = "".join(
    bytes([n]).decode("cp1252") if n not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(n)
    for n in range(256)
)


def text_decoder(charset: str) -> TextDecoder | None:
    """The function from bytes of ``charset`` to text, which raises UnicodeDecodeError on bytes that are
    not of it; None where there is no exact codec."""
    if charset == "latin1":
        return _latin1
    codec = _CODECS.get(charset)
    if codec is None:
        return None
    decode = codecs.getdecoder(codec)
    return lambda data: decode(data, "strict")[0]


class Charsets:
    """The character sets of one server, by the number of a collation, as the binlog names them."""

    def __init__(self, collations: dict[int, str], widths: dict[str, int]) -> None:
        self._collations = collations
        self._widths = widths

    def name(self, collation: int) -> str:
        """The character set of a collation; raise KeyError where the server has no such collation."""
        return self._collations[collation]

    def width(self, charset: str) -> int:
        """The most bytes that one character takes."""
        return self._widths[charset]
