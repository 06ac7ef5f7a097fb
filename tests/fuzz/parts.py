"""Further targets of the fuzzer: functions of the bytes of one event or value.

Invariant: as in ``targets``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from connectors.mysql.binlog import mariadb_events as mariadb
from connectors.mysql.binlog.events import EventType, parse_query, payload_events
from connectors.mysql.binlog.gtid_events import parse_gtid_tagged
from connectors.mysql.binlog.table_map import parse_table_map
from connectors.mysql.position import parse_gtids
from connectors.mysql.stream import transaction_payload
from connectors.mysql.types.json_binary import document_text
from connectors.mysql.types.json_diff import patched
from connectors.mysql.types.json_text import Documents
from connectors.mysql.types.strings import unpacked
from tests.fuzz.corpus_of import SERVERS, Corpus, corpus_of
from tests.fuzz.demands import KIN, Fault, demand
from tests.fuzz.mutations import body_of, changed, mutated_payload
from tests.made import packed
from tests.unit.connectors.mysql.binary_json import Opaque, document

_PARSERS: dict[int, Callable[[bytes, Corpus], object]] = {
    19: lambda body, _: (parse_table_map(body), parse_table_map(body, mariadb=True)),
    2: lambda body, corpus: parse_query(body, corpus.charsets),
    42: lambda body, _: _tagged(body),
    162: lambda body, _: parse_gtids(mariadb.parse_gtid(body, 7).gtid),
    165: lambda body, _: mariadb.uncompressed_query(body),
} | {
    int(kind): (lambda body, _, kind=kind: mariadb.uncompressed_rows(kind, body))
    for kind in mariadb.PLAIN_ROWS
}


def _tagged(body: bytes) -> None:
    source, tag, number, _ = parse_gtid_tagged(body)
    parse_gtids(f"{source}:{tag}:{number}" if tag else f"{source}:{number}")


def parsers(random: Random) -> bool:
    """Functions of one event's body."""
    corpus = corpus_of(random.choice(SERVERS))
    event = random.choice([one for one in corpus.events if one[4] in _PARSERS])
    kind = event[4] if random.random() < 0.9 else random.choice(list(_PARSERS))
    try:
        _PARSERS[kind](changed(random, body_of(event)), corpus)
    except KIN:
        return False
    return True


def payloads(random: Random) -> bool:
    """Compressed transactions, at once and in pieces."""
    corpus = corpus_of("mysql")
    bodies = [body_of(one) for one in corpus.events if one[4] == EventType.TRANSACTION_PAYLOAD]
    body = mutated_payload(random, random.choice(bodies), corpus.events)
    whole = pieces = None
    with suppress(*KIN):
        whole = payload_events(body)
    with suppress(*KIN):
        pieces = b"".join(transaction_payload.Payload.parse(memoryview(body)).pieces(1 << 10))
    demand(None in (whole, pieces) or whole == pieces, "pieces are not the whole")
    return pieces is not None


def columns(random: Random) -> bool:
    """MariaDB's compressed values."""
    value = (
        bytes([0x80 | random.randrange(16)])
        + random.randbytes(3)
        + b"x\x9c\x4b\x04\x00\x00\x62\x00\x62"
    )
    try:
        unpacked(changed(random, value))
    except KIN:
        return False
    return True


_TREES: tuple[Any, ...] = (
    {"name": "Ann", "n": 7, "list": [1, 2, {"x": []}], "o": {"p": {"q": -1}}},
    [[], {}, [[[1]]], "é" * 70, 1.5, 1 << 40, -(1 << 40), None, True, False, "x" * 200],
    {
        "d": Opaque(246, bytes.fromhex("0902800001320000")),
        "w": Opaque(12, bytes(8)),
        "b": Opaque(252, b"\0\1"),
    },
    {str(n): n * 1.1 for n in range(30)},
    [Opaque(11, bytes(8)), Opaque(10, bytes(8)), {"a": {"b": {"c": [1, [2, [3]]]}}}],
    "text",
    7,
)
_OFTEN = 300


def documents(random: Random) -> bool:
    """Documents: the plain reader and generated functions say the same, and what they say is JSON."""
    tree = random.choice(_TREES)
    whole = document(tree, large=random.random() < 0.2)
    raw = _laughs(random) if random.random() < 0.02 else changed(random, whole)
    made = Documents()
    if whole and random.random() < 0.2:
        for _ in range(_OFTEN):
            made.text(whole)
    texts: list[str | None] = []
    for read in (document_text, made.text):
        try:
            texts.append(read(raw))
        except KIN:
            texts.append(None)
    plain, ours = texts
    demand((plain is None) == (ours is None), f"one refuses: {plain} or {ours}")
    demand(plain is None or ours is None or plain == ours, f"{plain} is not {ours}")
    for text in (plain, ours):
        if text is not None:
            demand(len(text) <= 16 * len(raw) + 400, f"{len(text)} characters of {len(raw)} bytes")
            json.loads(text, parse_constant=_refused)
    return plain is not None


def _refused(name: str) -> None:
    raise Fault(f"{name} is no JSON")


def _laughs(random: Random) -> bytes:
    """Arrays whose two elements are one and the same array, and so on."""
    depth = random.choice((5, 20, 60, 99))
    made = b"".join(struct.pack("<HHBHBH", 2, 10, 2, 10, 2, 10) for _ in range(depth))
    return b"\2" + made + b"\0\0\4\0"


_FAR = "[99999999999999999999]"
_PATHS = ("$", "$.n", "$.list[1]", "$[0]", "$.o.p", f"${_FAR}", f"$.list{_FAR}", "$[0][0]", "$.o.x")


def diffs(random: Random) -> bool:
    """Partial updates of documents."""
    tree = document_text(document(random.choice(_TREES)))
    found = b""
    for _ in range(random.choice((1, 2, 3, 300))):
        path = random.choice(
            (
                "$",
                "$.n",
                "$.list[1]",
                "$[0]",
                "$.o.p",
                "$[99999999999999999999]",
                "$[0][0]",
                "$.o.x",
            )
        )
        value = document(random.choice(_TREES)) if random.random() < 0.8 else document(_deep(60))
        operation = random.randrange(3)
        found += bytes([operation]) + _sized(path.encode())
        if operation != 2:
            found += _sized(value)
    if random.random() < 0.1:
        found = b"".join(
            b"\0" + _sized(("$" + "[0]" * (50 * n)).encode()) + _sized(document(_deep(50)))
            for n in range(random.choice((2, 4, 30)))
        )
        tree = "[[]]"
    elif random.random() < 0.7:
        found = changed(random, found)
    try:
        text = patched(tree, found)
    except KIN:
        return False
    json.loads(text, parse_constant=_refused)
    return True


def _deep(depth: int) -> Any:
    tree: Any = 1
    for _ in range(depth):
        tree = [tree]
    return tree


def _sized(value: bytes) -> bytes:

    return packed(len(value)) + value
