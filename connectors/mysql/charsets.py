"""Conversion of bytes in a MySQL character set to text, exactly as the server interprets them.

Invariant: bytes become the characters that the server reads from them; no character set is decoded as a
different one. Bytes that do not have the form of a character are an error; no server stores them. A column
accepts every byte sequence in the form of a character, whether or not Unicode has the character. For most
sequences without a character MySQL returns ``?`` to its clients, for a few U+FFFD; text with such a
replacement is a ReplacedText, so that it is never mistaken for the original. Source: MySQL manual,
"Supported Character Sets and Collations", and strings/ctype-*.cc; the tests compare each codec and each
sequence with a server.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

_OLD = unicodedata.ucd_3_2_0
_AFTER_3_0 = frozenset(
    map(chr, (0x220, 0x3D8, 0x3F4, 0x48A, 0x4C5, 0x4C9, 0x4CD, *range(0x500, 0x510, 2)))
)


def lowered(name: str) -> str:
    """A name in lower case."""
    return name.lower() if name.isascii() else "".join(map(_lowered, name))


@cache
def _lowered(letter: str) -> str:
    small = letter.lower()[0]
    if letter in _AFTER_3_0 or "Cn" in (_OLD.category(letter), _OLD.category(small)):
        return letter
    return small


NONE = "\ufffe"
"""Placeholder for bytes without a character at the server; ``codecs.charmap_decode`` refuses it."""


class SingleByte(NamedTuple):
    """A character set of one byte per character."""

    codec: str
    own: dict[int, str]
    """Runs of characters that differ from the codec's, by the byte of the run's first character."""
    none: bytes = b""
    """Bytes that are characters in the codec but not at the server."""


_GEORGIAN = "ა ბ გ დ ე ვ ზ ჱ თ ი კ ლ მ ნ ჲ ო პ ჟ რ ს ტ ჳ უ ფ ქ ღ \u10e7 შ ჩ ც ძ წ ჭ ხ ჴ ჯ ჰ ჵ"
_ARMENIAN = "ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ"

SINGLE_BYTE = {
    # cp1252, except that its five undefined bytes are the code points of the same numbers.
    "latin1": SingleByte("cp1252", {n: chr(n) for n in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "greek": SingleByte("iso8859-7", {0xA1: "\u02bd\u02bc"}, bytes.fromhex("a4 a5 aa")),
    "hebrew": SingleByte("iso8859-8", {0xAF: "\u203e"}),
    "cp866": SingleByte("cp866", {0xFC: "\u207f\u00b2"}),
    "koi8u": SingleByte("koi8-u", {0x95: "\u2022"}),
    # cp1256 before the letters of Urdu were added to it.
    "cp1256": SingleByte("cp1256", {}, bytes.fromhex("8a 8f 98 9a 9f aa c0 ff")),
    "swe7": SingleByte(
        "ascii", {0x40: "É", 0x5B: "ÄÖÅÜ", 0x60: "é", 0x7B: "äöåü"}, bytes.fromhex("7f")
    ),
    "dec8": SingleByte(
        "latin-1",
        {0xA8: "¤", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ"},
        bytes.fromhex("a4 a6 ac ad ae af b4 b8 be d0 de f0 fe ff"),
    ),
    "keybcs2": SingleByte(
        "cp437",
        {0x80: "Č", 0x83: "ď", 0x85: "ĎŤčěĚĹÍľĺ", 0x8F: "Á", 0x91: "žŽ", 0x95: "ÓůÚý"}
        | {0x9B: "ŠĽÝŘť", 0xA4: "ňŇŮÔšřŕŔ"},
    ),
    "geostd8": SingleByte(
        "cp1252",
        {0xC0: _GEORGIAN.replace(" ", ""), 0xFD: "№"},
        bytes.fromhex("83 88 8a 8c 8e 98 99 9a 9c 9e 9f fe ff") + bytes(range(0xE6, 0xFD)),
    ),
    "armscii8": SingleByte(
        "latin-1",
        {0xA1: "❁§\u0589)(»«—.\u055d,-՟…՜՛՞", 0xB2: _ARMENIAN, 0xFE: "\u2019'"},
    ),
}


def _run(first: int, characters: str) -> dict[bytes, str]:
    """Characters of successive codes from ``first`` on, without undefined codes."""
    size = (first.bit_length() + 7) // 8
    codes = range(first, first + len(characters))
    pairs = zip(codes, characters, strict=True)
    return {code.to_bytes(size, "big"): char for code, char in pairs if char != NONE}


def _user_defined() -> dict[bytes, str]:
    """Ten rows of EUC, and ten more with 0x8F before them, mapped to the beginning of the private use area."""
    rows = [(lead, row) for lead in (b"", b"\x8f") for row in range(0xF5, 0xFF)]
    return {
        lead + bytes([row, 0xA1 + cell]): chr(0xE000 + 94 * n + cell)
        for n, (lead, row) in enumerate(rows)
        for cell in range(94)
    }


# NEC's row 13, and IBM's characters.
_NEC = _run(
    0xADA1,
    (
        "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ\ufffe㍉㌔㌢㍍㌘㌧㌃㌶㍑"
        "㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒"
        "≡∫∮∑√⊥∠∟⊿∵∩\u222a"
    ),
)
_IBM = _run(0x8FF3F3, "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡ") | _run(
    0x8FF4A1,
    (
        "ⅢⅣⅤⅥⅦⅧⅨⅩ\uff07\uff02㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔"
        "橫櫢淸淲瀨凞猪甁皂皞益礰礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨"
        "閒隆﨩霻靍靑飯飼館馞髙魲鶴黑"
    ),
)


class MultiByte(NamedTuple):
    """A character set of up to three bytes per character."""

    codec: str
    own: dict[bytes, str]
    """Characters missing from the codec."""
    instead: dict[str, str]
    """The server's characters in place of the codec's."""


MULTI_BYTE = {
    # Seven characters of ETEN's extension.
    "big5": MultiByte("big5", _run(0xF9D6, "\u7881\u92b9\u88cf\u58bb\u6052\u7ca7\u5afa"), {}),
    "sjis": MultiByte("shift_jis", {}, {"\uff3c": "\\"}),
    "ujis": MultiByte("euc_jp", _user_defined(), {"\uff3c": "\\"}),
    # Microsoft's forms of seven signs.
    "eucjpms": MultiByte(
        "euc_jp",
        _user_defined() | _NEC | _IBM,
        {
            "\u00a2": "\uffe0",
            "\u00a3": "\uffe1",
            "\u00a6": "\uffe4",
            "\u00ac": "\uffe2",
            "\u2016": "\u2225",
            "\u2212": "\uff0d",
            "\u301c": "\uff5e",
        },
    ),
}

EUCJPMS_TILDE = b"\x8f\xa2\xb7", "\uff5e"
"""A second encoding of this character; the codec decodes it to ASCII's tilde, a different character."""

BIG5_NONE = frozenset(
    code.to_bytes(2, "big") for code in (0xA15A, 0xA1C3, 0xA1C5, 0xA1FE, 0xA240, 0xA2CC, 0xA2CE)
)
"""Byte pairs that are characters in the codec but not at the server."""

# In MySQL as in GB 18030-2005; Python's codec follows the edition of 2000.
GB18030_2005 = {0xE7C7: "\u1e3f", 0x1E3F: "\ue7c7"}


BINARY = "binary"

TextDecoder = Callable[[bytes], str]
TextEncoder = Callable[[str], bytes]

_CODECS = {
    "ascii": "ascii",
    "utf8": "utf-8",
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "koi8r": "koi8-r",
    "macroman": "mac-roman",
    "macce": "mac-latin2",
    "hp8": "hp-roman8",
    "tis620": "tis-620",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "euckr": "cp949",  # MySQL's euckr includes the syllables of Microsoft's extension
    "cp932": "cp932",
}


def _table(charset: SingleByte) -> str:
    """The characters of all 256 bytes in order; NONE for a byte without a character."""
    table = [bytes([n]).decode(charset.codec, "ignore") or NONE for n in range(256)]
    for first, characters in charset.own.items():
        table[first : first + len(characters)] = characters
    for n in charset.none:
        table[n] = NONE
    return "".join(table)


_TABLES = {name: _table(charset) for name, charset in SINGLE_BYTE.items()}


def _handler(charset: MultiByte) -> Callable[[UnicodeError], tuple[str, int]]:
    """The codec's error handler: for bytes that the codec cannot decode, it returns characters of ``own``."""

    def read(error: UnicodeError) -> tuple[str, int]:
        if isinstance(error, UnicodeDecodeError):
            for size in (2, 3):
                end = error.start + size
                if char := charset.own.get(error.object[error.start : end]):
                    return char, end
        raise error

    return read


for _name, _charset in MULTI_BYTE.items():
    codecs.register_error(f"aqueduct.{_name}", _handler(_charset))


def _multi_byte(name: str, charset: MultiByte) -> TextDecoder:
    codec, errors = codecs.getdecoder(charset.codec), f"aqueduct.{name}"
    instead = list(charset.instead.items())

    def decode(data: bytes) -> str:
        text = codec(data, errors)[0]
        for theirs, ours in instead:
            text = text.replace(theirs, ours)
        return text

    return decode


def _big5() -> TextDecoder:
    decode = _multi_byte("big5", MULTI_BYTE["big5"])
    suspicious = re.compile(b"|".join(re.escape(pair) for pair in BIG5_NONE))
    character = re.compile(rb"[\0-\x80]|..", re.DOTALL)

    def checked(data: bytes) -> str:
        text = decode(data)
        # Such a pair may also be the end of one character and the beginning of the next.
        if suspicious.search(data):
            for found in character.finditer(data):
                if found[0] in BIG5_NONE:
                    raise UnicodeDecodeError("big5", data, *found.span(), "no such character")
        return text

    return checked


def _eucjpms() -> TextDecoder:
    decode = _multi_byte("eucjpms", MULTI_BYTE["eucjpms"])
    raw, char = EUCJPMS_TILDE

    def split(data: bytes) -> str:
        # 0x8F is never a second or third byte.
        return char.join(map(decode, data.split(raw))) if raw in data else decode(data)

    return split


def _gb18030(data: bytes) -> str:
    return data.decode("gb18030").translate(GB18030_2005)


def _ucs2(data: bytes) -> str:
    """Decode UCS-2; refuse a surrogate pair, which in UCS-2 is two characters, neither of them text."""
    text = data.decode("utf-16-be")
    if not text.isascii() and max(text) > "\uffff":
        raise UnicodeDecodeError("ucs2", data, 0, len(data), "a surrogate")
    return text


_SPECIAL: dict[str, TextDecoder] = {
    "big5": _big5(),
    "eucjpms": _eucjpms(),
    "gb18030": _gb18030,
    "ucs2": _ucs2,
}


def text_decoder(charset: str) -> TextDecoder | None:
    """Return the function from bytes of ``charset`` to text; None for ``binary`` and unknown character sets.

    The function raises UnicodeDecodeError for bytes without characters at the server.
    """
    if decode := _SPECIAL.get(charset):
        return decode
    if table := _TABLES.get(charset):
        return lambda data: codecs.charmap_decode(data, "strict", table)[0]
    if several := MULTI_BYTE.get(charset):
        return _multi_byte(charset, several)
    codec = _CODECS.get(charset)
    if codec is None:
        return None
    read = codecs.getdecoder(codec)
    return lambda data: read(data, "strict")[0]


def text_encoder(charset: str) -> TextEncoder | None:
    """Return the function from text to bytes of ``charset``; None if ``text_decoder`` returns None.

    The function raises UnicodeError if its bytes would not be decoded to the same text.
    """
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
        # If two bytes have the same character, the first byte is used.
        numbers = {ord(table[n]): n for n in reversed(range(256)) if table[n] != NONE}
        return lambda text: codecs.charmap_encode(text, "strict", numbers)[0]
    if charset == "gb18030":
        back = {ord(char): chr(code) for code, char in GB18030_2005.items()}
        return lambda text: text.translate(back).encode("gb18030")
    if charset == "ucs2":
        return lambda text: text.encode("utf-16-be")
    if several := MULTI_BYTE.get(charset):
        return _multi_byte_encoder(several)
    codec = _CODECS[charset]
    return lambda text: text.encode(codec)


def _multi_byte_encoder(charset: MultiByte) -> TextEncoder:
    own = {char: raw for raw, char in charset.own.items()}
    theirs = {ours: theirs for theirs, ours in charset.instead.items() if not ours.isascii()}

    def encode(text: str) -> bytes:
        return b"".join(
            own.get(char) or theirs.get(char, char).encode(charset.codec) for char in text
        )

    return encode


class Charsets:
    """The character sets of one server, by collation number, as in the binlog."""

    def __init__(
        self,
        collations: dict[int, str],
        widths: dict[str, int],
        names: dict[int, str] | None = None,
    ) -> None:
        self._collations = collations
        self._widths = widths
        self._names = names or {}
        self._numbers = {name: number for number, name in self._names.items()}

    def name(self, collation: int) -> str:
        """The character set of a collation; raise KeyError if the server has no such collation."""
        return self._collations[collation]

    def width(self, charset: str) -> int:
        """The maximum size of a character in bytes."""
        return self._widths[charset]

    def collation(self, number: int) -> str | None:
        """The name of a collation; None if the server has no collation of this number."""
        return self._names.get(number)

    def number(self, collation: str) -> int | None:
        """The number of a collation, by its name in ``information_schema.columns``."""
        return self._numbers.get(collation)

    def any_number(self, charset: str) -> int | None:
        """The lowest number of a character set's collations; None if the server has no such set."""
        names = {"utf8": "utf8mb3", "utf8mb3": "utf8"}
        wanted = {charset, names.get(charset, charset)}
        return min((n for n, name in self._collations.items() if name in wanted), default=None)


class ReplacedText(str):
    """Text in which ``?`` or U+FFFD replaces a character that Unicode lacks."""

    __slots__ = ()


class Replaced(ValueError):
    """A value is a ReplacedText; raised where only exact text can be returned."""


def exact(value: object) -> object:
    """Return the value; raise Replaced if it is a ReplacedText."""
    if isinstance(value, ReplacedText):
        raise Replaced("some of its characters have no Unicode")
    return value


_KANJI = rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]"
_EUC = rb"\x8e[\xa1-\xdf]|\x8f[\xa1-\xfe]{2}|[\xa1-\xfe]{2}"
_FORMS = {
    "big5": rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]",
    "cp932": _KANJI,
    "sjis": _KANJI,
    # The bytes 8E A0 are two characters to MySQL's converter.
    "eucjpms": _EUC + rb"|\x8e(?=\xa0)|(?<=\x8e)\xa0",
    "ujis": _EUC + rb"|\x8e(?=\xa0)|(?<=\x8e)\xa0",
    "euckr": rb"[\x81-\xfe][\x41-\x5a\x61-\x7a\x81-\xfe]",
    "gb2312": rb"[\xa1-\xf7][\xa1-\xfe]",
    "gbk": rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]",
    "gb18030": rb"[\x81-\xfe][\x30-\x39][\x81-\xfe][\x30-\x39]",
    # In UCS-2 a surrogate is a character of its own, which is not text.
    "ucs2": rb"[\xd8-\xdf].",
}
"""Patterns for the byte form of a character, in sets with characters of several bytes."""
_SINGLE = {
    "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "dec8", "geostd8", "greek", "hebrew", "hp8", "swe7",
    "tis620",
}  # fmt: skip
"""Single-byte sets in which some bytes have no character."""
_BIG5_FFFD = {
    bytes.fromhex(pair) for pair in ("a15a", "a1c3", "a1c5", "a1fe", "a240", "a2cc", "a2ce")
}


def column_decoder(charset: str) -> TextDecoder | None:
    """Return the function from bytes of ``charset`` to the text that a client with utf8mb4 gets for them.

    Return None for ``binary`` and unknown character sets. The function returns a ReplacedText if a
    character has no Unicode equivalent, and raises UnicodeDecodeError for bytes that no column can hold.
    """
    decode = text_decoder(charset)
    if decode is None or not (charset in _FORMS or charset in _SINGLE):
        return decode
    return _replacing(charset, decode)


def _replacing(charset: str, decode: TextDecoder) -> TextDecoder:
    form = _FORMS.get(charset)
    other = rb".." if charset == "ucs2" else rb"."
    character = re.compile(other if form is None else rb"(" + form + rb")|" + other, re.DOTALL)

    def read(data: bytes) -> str:
        try:
            return decode(data)
        except UnicodeDecodeError:
            pass
        found, end = [], 0
        for match in character.finditer(data):
            end = match.end()
            try:
                found.append(decode(match[0]))
            except UnicodeDecodeError:
                if form is not None and match[1] is None:
                    raise
                found.append(_replacement(charset, match[0]))
        if end < len(data):
            raise UnicodeDecodeError(charset, data, end, len(data), "no whole character")
        return ReplacedText("".join(found))

    return read


def _replacement(charset: str, raw: bytes) -> str:
    if charset in ("tis620", "ucs2") or (charset == "big5" and raw in _BIG5_FFFD):
        return "\ufffd"
    return "?"
