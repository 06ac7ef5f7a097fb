"""Every character set of the server's: our text of its bytes is the server's own."""

import json
from typing import Any

import pytest

from connectors.errors import RowUnreadable
from connectors.mysql.charsets import ReplacedText, column_decoder, text_decoder, text_encoder
from connectors.mysql.rows.compiled import CompiledDecoder, RowText
from devstack import Stack
from devstack.mysql import Mysql
from tests.harness.sql import connected, run
from tests.integration.worker.source import decoded, facts_of, written
from tests.steps import Rows

SINGLE = (
    "armscii8", "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8",
    "geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5",
    "latin7", "macce", "macroman", "swe7", "tis620",
)  # fmt: skip
DOUBLE = ("big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis")
TRIPLE = {"eucjpms", "ujis"}
UNICODE = ("utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32")
WITHOUT_ASTRAL = {"utf8mb3", "ucs2"}
REFUSED = {"binary"}

PLANES = [
    "".join(chr(n) for n in range(first, first + 0x10000) if not 0xD800 <= n < 0xE000)
    for first in range(0, 0x110000, 0x10000)
]


def sequences(charset: str) -> list[bytes]:
    """Every byte, and every sequence that may be one character of the set, or two; gb18030's of four apart."""
    raws = [bytes([n]) for n in range(256)]
    if charset in DOUBLE:
        raws += [bytes([high, low]) for high in range(0x80, 256) for low in range(0x30, 256)]
    if charset in TRIPLE:
        raws += [bytes([0x8F, n, m]) for n in range(0x80, 256) for m in range(0x80, 256)]
    return raws


def texts(cursor: Any, charset: str, raws: list[bytes]) -> dict[bytes, str | None]:
    """What the server reads in the well-formed strings, the only ones a column takes; None where it has no
    character for one."""
    listed = json.dumps([raw.hex() for raw in raws])
    cursor.execute(
        "WITH strings (h, s) AS ("
        f" SELECT h, CAST(UNHEX(h) AS CHAR CHARACTER SET {charset})"
        " FROM JSON_TABLE(%s, '$[*]' COLUMNS (h VARCHAR(16) PATH '$')) AS j)"
        " SELECT h, HEX(CONVERT(s USING utf32)) FROM strings WHERE HEX(s) = h",
        (listed,),
    )
    found = {
        bytes.fromhex(raw): bytes.fromhex(text).decode("utf-32-be")
        for raw, text in cursor.fetchall()
    }
    return {raw: text if _whole(raw, text) else None for raw, text in found.items()}


def _whole(raw: bytes, text: str) -> bool:
    """Whether the server has a character for each: U+FFFD, ? and, at an end, nothing stand for none."""
    return text != "" and text.count("?") == raw.count(b"?") and "\ufffd" not in text


def assert_read_alike(charset: str, theirs: dict[bytes, str | None]) -> None:
    """Ours is what they read, back to bytes it is the same text, and what they cannot read we refuse."""
    decode, encode = text_decoder(charset), text_encoder(charset)
    assert decode is not None
    assert encode is not None
    wrong = []
    for raw, text in theirs.items():
        ours: str | None
        try:
            ours = decode(raw)
        except UnicodeDecodeError:
            ours = None
        if ours != text:
            wrong.append((raw.hex(), ours, text))
        elif ours is not None:
            encode(ours)  # which raises unless it comes back
    assert not wrong


@pytest.mark.filterwarnings("ignore")  # PyMySQL warns of the malformed strings among them
@pytest.mark.parametrize("charset", [*SINGLE, *DOUBLE])
def test_each_character_is_the_one_the_server_reads(stack: Stack, charset: str) -> None:
    with connected(stack.mysql) as cursor:
        theirs = texts(cursor, charset, sequences(charset))
    assert len(theirs) >= 128
    assert_read_alike(charset, theirs)


@pytest.mark.parametrize("charset", [*UNICODE, "gb18030"])
def test_each_code_point_is_read_from_the_bytes_the_server_writes(
    stack: Stack, charset: str
) -> None:
    decode = text_decoder(charset)
    assert decode is not None
    with connected(stack.mysql) as cursor:
        for plane in PLANES[:1] if charset in WITHOUT_ASTRAL else PLANES:
            cursor.execute(
                f"SELECT CAST(CONVERT(CONVERT(%s USING utf32) USING {charset}) AS BINARY)",
                (plane.encode("utf-32-be"),),
            )
            ((raw,),) = cursor.fetchall()
            assert decode(raw) == plane


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("charset", [*SINGLE, *DOUBLE, *UNICODE])
def test_columns_of_a_character_set_hold_what_the_server_selects(
    stack: Stack, charset: str
) -> None:
    """All characters of the set in one text, some in labels, a CHAR and a key of a JSON document."""
    encode = text_encoder(charset)
    assert encode is not None
    if charset in UNICODE:
        characters = [char for plane in PLANES[:3] for char in plane[0x20:0x1000]]
        if charset in WITHOUT_ASTRAL:
            characters = list(PLANES[0])
        raw = encode("".join(characters))
    else:
        with connected(stack.mysql) as cursor:
            theirs = texts(cursor, charset, sequences(charset))
        read = {raw: text for raw, text in theirs.items() if text is not None}
        raw, characters = b"".join(read), list("".join(read.values()))
    last = sorted(set(characters))[-20:]
    labels = [*last[:12:3], "".join(last)]
    text, *hexes = (f"x'{part.hex()}'" for part in (raw, *map(encode, labels)))
    listed, table = ",".join(hexes), f"charsets.`{charset}`"
    key = f"CONVERT(_{charset} {hexes[-1]} USING utf8mb4)"
    steps = written(
        stack.mysql,
        "CREATE DATABASE IF NOT EXISTS charsets",
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (t LONGTEXT, v VARCHAR(20), c CHAR(20), e ENUM({listed}),"
        f" s SET({listed}), j JSON) CHARACTER SET {charset} COLLATE {charset}_bin",
        f"INSERT INTO {table} VALUES ({text}, {hexes[0]}, {hexes[-1]}, {len(labels)},"
        # Of ucs2 and similar ones, JSON_OBJECT would take a literal's bytes as they are.
        f" {2 ** len(labels) - 1}, JSON_OBJECT({key}, CONVERT(_{charset} {hexes[0]} USING utf8mb4)))",
    )
    (row,) = decoded(stack.mysql, steps)
    with connected(stack.mysql) as cursor:
        cursor.execute(f"SELECT t, v, c, e, s, j FROM {table}")
        ((*selected, document),) = cursor.fetchall()
    ours = row.after()
    assert [ours[column] for column in "tvces"] == selected
    assert selected == ["".join(characters), labels[0], labels[-1], labels[-1], ",".join(labels)]
    assert json.loads(ours["j"]) == json.loads(document) == {labels[-1]: labels[0]}


def stored(mysql: Mysql, charset: str, raws: list[bytes]) -> dict[bytes, bytes]:
    """The text selected by a client with utf8mb4, for the byte sequences that a column of the set takes."""
    table = f"charsets.stored_{charset}"
    values = ",".join(f"(x'{raw.hex()}', x'{raw.hex()}')" for raw in raws)
    with connected(mysql, use_unicode=False) as cursor:
        cursor.execute("SET SESSION sql_mode = '', sql_log_bin = 0")
        cursor.execute("CREATE DATABASE IF NOT EXISTS charsets")
        cursor.execute(f"DROP TABLE IF EXISTS {table}")
        cursor.execute(
            f"CREATE TABLE {table} (h VARBINARY(8), s VARCHAR(8) CHARACTER SET {charset})"
        )
        cursor.execute(f"INSERT IGNORE INTO {table} VALUES {values}")
        cursor.execute(f"SELECT h, s FROM {table} WHERE CAST(s AS BINARY) = h")
        return dict(cursor.fetchall())


def assert_published_as_selected(charset: str, selected: dict[bytes, bytes]) -> None:
    """Ours is what they return, and marked where it is not what was written."""
    decode, exact = column_decoder(charset), text_decoder(charset)
    assert decode is not None
    assert exact is not None
    wrong = []
    for raw, text in selected.items():
        ours = decode(raw)
        try:
            is_exact = exact(raw) == ours
        except UnicodeDecodeError:
            is_exact = False
        if ours != text.decode(errors="replace") or isinstance(ours, ReplacedText) is is_exact:
            wrong.append((raw.hex(), ours, text))
    assert not wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("charset", [*SINGLE, *DOUBLE])
def test_each_byte_sequence_that_a_column_takes_is_published_as_the_server_returns_it(
    stack: Stack, charset: str
) -> None:
    raws = sequences(charset)
    if charset == "gb18030":
        # Those of four bytes that Unicode lacks are in ranges, of which these are the ends.
        raws += [
            bytes.fromhex(r)
            for r in ["8431a439", "8431a530", "8f39fe39", "e3329a35", "e3329a36", "fe39fe39"]
        ]
    selected = stored(stack.mysql, charset, raws)
    assert len(selected) >= 128
    assert_published_as_selected(charset, selected)


LACKING = {
    "tis620": "61db",
    "sjis": "81ad",
    "big5": "a15aa3c0",
    "swe7": "7f",
    "cp1250": "8141",
}


def test_text_that_unicode_lacks_is_published_as_the_server_returns_it_and_marked(
    stack: Stack,
) -> None:
    run(stack.mysql, "CREATE DATABASE IF NOT EXISTS charsets")
    for charset, raw in LACKING.items():
        table = f"charsets.open_{charset}"
        steps = written(
            stack.mysql,
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} (n INT PRIMARY KEY, t VARCHAR(9), e ENUM('a', x'{raw}'),"
            f" s SET(x'{raw}', 'b'), u VARCHAR(9)) CHARACTER SET {charset}",
            f"INSERT INTO {table} VALUES (1, x'{raw}', 2, 3, 'u'), (2, 'b', 1, 2, 'u')",
            f"UPDATE {table} SET t = 'c' WHERE n = 1",
        )
        rows = [step for step in steps if isinstance(step, Rows)]
        charsets = facts_of(stack.mysql).charsets
        found = [
            RowText._make(row)
            for step in rows
            for row in CompiledDecoder(step.table_map, charsets).rows(step.event_type, step.body)
        ]
        marks = '"replaced":["t","e","s"]'
        assert [row.marks for row in found] == [marks, None, marks], charset
        with connected(stack.mysql, use_unicode=False) as cursor:
            cursor.execute(f"SELECT e, s FROM {table} WHERE n = 1")
            ((label, labels),) = cursor.fetchall()
        after = json.loads(found[0].after or "")
        assert (after["e"], after["s"]) == (
            label.decode(errors="replace"),
            labels.decode(errors="replace"),
        )
        assert json.loads(found[2].after or "")["t"] == "c"


def test_a_key_that_unicode_lacks_is_refused_as_two_rows_could_have_the_same(stack: Stack) -> None:
    steps = written(
        stack.mysql,
        "CREATE DATABASE IF NOT EXISTS charsets",
        "DROP TABLE IF EXISTS charsets.keyed",
        "CREATE TABLE charsets.keyed (k VARCHAR(9) PRIMARY KEY) CHARACTER SET tis620",
        "INSERT INTO charsets.keyed VALUES (x'61'), (x'db')",
    )
    with pytest.raises(RowUnreadable, match="column 'k' of a row's key"):
        decoded(stack.mysql, steps)


def test_no_character_set_of_the_server_is_missing(stack: Stack) -> None:
    with connected(stack.mysql) as cursor:
        cursor.execute("SELECT character_set_name FROM information_schema.character_sets")
        known = {name for (name,) in cursor.fetchall()}
    assert facts_of(stack.mysql).charsets.width("utf8mb4") == 4
    assert known == {*SINGLE, *DOUBLE, *UNICODE} | REFUSED
    assert {name for name in known if text_decoder(name) is None} == REFUSED
