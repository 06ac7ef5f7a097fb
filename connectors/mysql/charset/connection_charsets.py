"""The character set of a connection, by its name in MySQL or in Java, as Canal's files have it.

Invariant: a name maps to the character set that ``SET NAMES`` would select for it, or to None.
"""

from __future__ import annotations

import codecs
import re

from pymysql.charset import charset_by_name

_OTHER_NAMES = {
    "utf8": "utf8mb4",
    "utf": "utf8mb4",
    "unicode11utf8": "utf8mb4",
    "usascii": "ascii",
    "iso646us": "ascii",
    "iso88591": "latin1",
    "cp1252": "latin1",
    "windows1252": "latin1",
    "iso88592": "latin2",
    "iso88597": "greek",
    "iso88598": "hebrew",
    "iso88599": "latin5",
    "iso885913": "latin7",
    "windows1250": "cp1250",
    "windows1251": "cp1251",
    "windows1256": "cp1256",
    "windows1257": "cp1257",
    "ibm850": "cp850",
    "ibm852": "cp852",
    "ibm866": "cp866",
    "cp936": "gbk",
    "ms936": "gbk",
    "windows936": "gbk",
    "euccn": "gb2312",
    "big5hkscs": "big5",
    "shiftjis": "sjis",
    "ms932": "cp932",
    "windows31j": "cp932",
    "eucjp": "ujis",
    "koi8": "koi8r",
}


def connection_charset(name: str) -> str | None:
    """MySQL's name of a character set usable for connections; None for other names."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    charset = charset_by_name(_OTHER_NAMES.get(plain, plain))
    if charset is None or charset.name == "binary":
        return None
    try:
        codecs.lookup(charset.encoding)
    except LookupError:
        return None
    return str(charset.name)
