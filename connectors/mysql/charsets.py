"""Turning the bytes of a MySQL character set into text, exactly as the server means them.

The law: a character set we have no exact codec for is refused by name; it is never read as another one.
Source: MySQL manual, "Supported Character Sets and Collations"; the tests
compare each codec with a server.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

BINARY = "binary"

TextDecoder = Callable[[bytes], str]
TextEncoder = Callable[[str], bytes]

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
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "koi8r": "koi8-r",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "euckr": "cp949",  # MySQL's has the syllables of Microsoft's extension
    "cp932": "cp932",
}


# MySQL's latin1 is cp1252, with the five bytes that cp1252 leaves open as the same code points.
_OWN_BYTES = {
    "latin1": ("cp1252", {n: chr(n) for n in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "greek": ("iso8859-7", {0xA1: "\u02bd", 0xA2: "\u02bc"}),
    "hebrew": ("iso8859-8", {0xAF: "\u203e"}),
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\u00b2"}),
    "koi8u": ("koi8-u", {0x95: "\u2022"}),
}
"""Where MySQL's table differs from the codec of that name, byte by byte."""


def _table(codec: str, own: dict[int, str]) -> str:
    """256 characters; U+FFFE is what charmap_decode takes for an unknown byte."""
    plain = (bytes([n]).decode(codec, "ignore") or "\ufffe" for n in range(256))
    return "".join(own.get(n, char) for n, char in enumerate(plain))


_TABLES = {charset: _table(*differences) for charset, differences in _OWN_BYTES.items()}

# In MySQL as in GB 18030-2005; Python's codec follows the edition of 2000.
_GB18030_2005 = {0xE7C7: "\u1e3f", 0x1E3F: "\ue7c7"}


def _gb18030(data: bytes) -> str:
    return data.decode("gb18030").translate(_GB18030_2005)


_BIG5_ETEN = dict(
    zip(range(0xF9D6, 0xF9DD), "\u7881\u92b9\u88cf\u58bb\u6052\u7ca7\u5afa", strict=True)
)
"""Seven characters that MySQL's big5 has over Python's."""


def _big5_eten(error: UnicodeError) -> tuple[str, int]:
    if isinstance(error, UnicodeDecodeError):
        pair = int.from_bytes(error.object[error.start : error.start + 2], "big")
        if pair in _BIG5_ETEN:
            return _BIG5_ETEN[pair], error.start + 2
    raise error


codecs.register_error("aqueduct.big5", _big5_eten)


def text_decoder(charset: str) -> TextDecoder | None:
    """The function from bytes of ``charset`` to text, which raises UnicodeDecodeError on bytes that are
    not of it; None where there is no exact codec."""
    if table := _TABLES.get(charset):
        return lambda data: codecs.charmap_decode(data, "strict", table)[0]
    if charset == "gb18030":
        return _gb18030
    if charset == "big5":
        return lambda data: data.decode("big5", "aqueduct.big5")
    codec = _CODECS.get(charset)
    if codec is None:
        return None
    decode = codecs.getdecoder(codec)
    return lambda data: decode(data, "strict")[0]


def text_encoder(charset: str) -> TextEncoder | None:
    """The function from text to bytes of ``charset``, which raises UnicodeError where the text has none that
    ``text_decoder`` would read as the same; None where there is no exact codec."""
    decode = text_decoder(charset)
    if decode is None:
        return None
    encode = _plain_encoder(charset)

    def checked(text: str) -> bytes:
        raw = encode(text)
        if decode(raw) != text:
            raise UnicodeError(f"{text!r} has no exact form in {charset}")
        return raw

    return checked


def _plain_encoder(charset: str) -> TextEncoder:
    if table := _TABLES.get(charset):
        numbers = {char: n for n, char in enumerate(table)}
        return lambda text: bytes(numbers[char] for char in text)
    if charset == "gb18030":
        back = {ord(char): chr(code) for code, char in _GB18030_2005.items()}
        return lambda text: text.translate(back).encode("gb18030")
    if charset == "big5":
        own = {char: pair.to_bytes(2, "big") for pair, char in _BIG5_ETEN.items()}
        return lambda text: b"".join(own.get(char) or char.encode("big5") for char in text)
    codec = _CODECS[charset]
    return lambda text: text.encode(codec)


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
