"""Differences between MySQL's character sets and the nearest Python codecs.

Invariant: each line is a server's behaviour, not a standard's; the tests query servers for every
character.
"""

from __future__ import annotations

from typing import NamedTuple

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
