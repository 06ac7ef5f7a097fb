"""Character sets as the audit reads them: by Python's codecs and two tables of its own.

Invariant: none of the worker's decoding is used here, and only sets that Python reads as MySQL does are listed.
"""

from __future__ import annotations

from collections.abc import Callable

_CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin1": "latin1-mysql",
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13", "cp1250": "cp1250",
    "cp1251": "cp1251", "cp1257": "cp1257", "cp850": "cp850", "cp852": "cp852", "koi8r": "koi8-r",
    "swe7": "swe7-mysql",
    "gbk": "gbk", "gb2312": "gb2312", "euckr": "cp949", "cp932": "cp932",
}  # fmt: skip
"""Only those that Python reads as MySQL does; text of another is not compared, and this is reported."""


def decoder_of(charset: str | None) -> Callable[[bytes], str] | None:
    """The function from bytes to text, which raises UnicodeDecodeError; None if there is no codec
    for it."""
    codec = _CODECS.get(charset or "")
    if codec is None:
        return None
    return {"latin1-mysql": _latin1, "swe7-mysql": _swe7}.get(codec) or (
        lambda raw: raw.decode(codec)
    )


def label_text(raw: bytes, charset: str | None) -> str:
    """A label from the bytes of its column's character set; with U+FFFD for those without a codec here."""
    decode = decoder_of(charset)
    if decode is None:
        # All character sets without a codec here have ASCII's bytes for ASCII.
        return raw.decode("ascii", "replace")
    try:
        return decode(raw)
    except UnicodeDecodeError:
        return "\ufffd"


_SWE7 = str.maketrans(dict(zip("@[\\]^`{|}~", "ÉÄÖÅÜéäöåü", strict=True)))


def _swe7(content: bytes) -> str:
    """ASCII with Swedish letters in place of ten characters."""
    text = content.decode("ascii")
    if "\x7f" in text:
        raise UnicodeDecodeError("swe7", content, 0, len(content), "no such character")
    return text.translate(_SWE7)


def _latin1(content: bytes) -> str:
    """MySQL's latin1 is cp1252, with control characters for its five undefined bytes."""
    return "".join(
        chr(byte) if byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else bytes([byte]).decode("cp1252")
        for byte in content
    )
