"""Every character set we read: our text of its bytes is the server's own."""

import json
from typing import Any

import pytest

from connectors.mysql.charsets import text_decoder
from devstack import Stack
from tests.integration.worker.source import connected, facts_of

SINGLE = (
    "latin1", "ascii", "latin2", "latin5", "greek", "hebrew", "cp1250", "cp1251", "cp1256", "cp1257",
    "cp850", "cp852", "cp866", "koi8r", "koi8u",
)  # fmt: skip
DOUBLE = ("gbk", "gb2312", "gb18030", "big5", "euckr", "cp932")
UNICODE = {"utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32"}
REFUSED = {
    "armscii8", "dec8", "eucjpms", "geostd8", "hp8", "keybcs2", "latin7", "macce", "macroman",
    "sjis", "swe7", "tis620", "ujis", "binary",
}  # fmt: skip


def texts(cursor: Any, charset: str, raws: list[bytes]) -> dict[bytes, str]:
    """What the server reads in well-formed strings; U+FFFD and ? stand for what it has no character for."""
    listed = json.dumps([raw.hex() for raw in raws])
    cursor.execute(
        f"SELECT h, HEX(CONVERT(CAST(UNHEX(h) AS CHAR CHARACTER SET {charset}) USING utf32))"
        " FROM JSON_TABLE(%s, '$[*]' COLUMNS (h VARCHAR(16) PATH '$')) AS j",
        (listed,),
    )
    return {
        bytes.fromhex(raw): bytes.fromhex(text).decode("utf-32-be")
        for raw, text in cursor.fetchall()
        if text is not None
    }


@pytest.mark.filterwarnings("ignore")  # PyMySQL warns of the malformed strings among them
@pytest.mark.parametrize("charset", [*SINGLE, *DOUBLE])
def test_each_character_is_the_one_the_server_reads(stack: Stack, charset: str) -> None:
    decode = text_decoder(charset)
    assert decode is not None
    raws = [bytes([n]) for n in range(256)]
    if charset in DOUBLE:
        raws += [bytes([high, low]) for high in range(0x81, 255) for low in range(0x30, 255)]
    with connected(stack.mysql) as cursor:
        theirs = texts(cursor, charset, raws)
    wrong = []
    for raw, text in theirs.items():
        if "?" in text.replace("?", "", raw == b"?") or "\ufffd" in text:
            continue
        try:
            ours = decode(raw)
        except UnicodeDecodeError:
            ours = "(refused)"
        if ours != text:
            wrong.append((raw.hex(), ours, text))
    assert len(theirs) > 100
    assert not wrong


def test_a_character_set_without_an_exact_decoder_is_refused(stack: Stack) -> None:
    with connected(stack.mysql) as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        known = {name for (name,) in cursor.fetchall()}
    assert facts_of(stack.mysql).charsets.width("utf8mb4") == 4
    read = {name for name in known if text_decoder(name) is not None}
    assert read == known - REFUSED
    assert read >= {*SINGLE, *DOUBLE} | UNICODE
