"""Targets of the fuzzer: each part of the decoder with mutated bytes, and its invariants.

Invariant: a target returns, or raises one of our errors, which names the position; all else is a fault. The
size of its result is bounded by its input, and two readers of the same bytes agree.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import orjson

from app.worker.pipeline.number import Numbers
from app.worker.pipeline.portions import CapturedChunk
from app.worker.pipeline.rules import PublishingRules
from app.worker.pipeline.stage import StageSpec
from connectors.errors import AqueductError
from connectors.mysql.binlog import mariadb_events as mariadb
from connectors.mysql.binlog.events import EventType
from connectors.mysql.binlog.table_map import TableMap, parse_table_map
from connectors.mysql.charsets import Charsets
from connectors.mysql.ddl.definition import Server
from connectors.mysql.position import Coordinates, parse_gtids
from connectors.mysql.rows.compiled import CompiledDecoder, RowText
from connectors.mysql.rows.counter import RowCounter, row_count
from connectors.mysql.rows.decoder import ABSENT, ROWS_EVENTS, RowChange, RowDecoder
from connectors.mysql.stream.chunk import Chunk
from connectors.mysql.stream.cutter import Cutter
from connectors.mysql.transaction_reader import TransactionReader
from connectors.mysql.types.registry import FieldType
from tables.rules.routes.routes import Routes
from tests.fuzz.corpus_of import SERVERS, Corpus, corpus_of
from tests.fuzz.demands import KIN, Fault, demand
from tests.fuzz.mutations import body_of, changed, mutated, spliced
from tests.fuzz.parts import columns, diffs, documents, parsers, payloads
from tests.made import SERVER
from tests.steps import End, Recorded

START = Coordinates("b.000001", 4)
OWN = {3, 4, 15, 27, 35, 41, 161, 163, 164}
"""Events that never come to a decoder."""
_LONGEST_MESSAGE = 2000
RULES = PublishingRules(
    destination="d",
    routes=Routes(prefix="aq", include=".*", partitions=2),
    markers=True,
    statements=True,
    compression="lz4",
    max_bytes=100_000,
    max_batch_bytes=1 << 20,
    oversize="stop",
)


def sound(error: AqueductError) -> None:
    """An error of ours says where, in few words."""
    demand("coordinates" in error.context, f"an error without coordinates: {error}")
    demand(len(str(error)) < _LONGEST_MESSAGE, f"an error of {len(str(error))} characters")


def _some(random: Random) -> tuple[Corpus, list[bytes]]:
    """Events of a few transactions, not changed yet."""
    corpus = corpus_of(random.choice((*SERVERS, SERVERS[0])))
    events: list[bytes] = []
    for _ in range(random.choice((1, 1, 2, 4))):
        begin = random.randrange(len(corpus.transactions))
        for group in corpus.transactions[begin : begin + random.choice((1, 1, 3))]:
            events += group
    return corpus, events


def _chunk(random: Random) -> tuple[Corpus, Chunk]:
    corpus, events = _some(random)
    events = [event for event in events if event[4] not in OWN]
    events = mutated(random, events, corpus.events)
    context: tuple[bytes, ...] = ()
    if random.random() < 0.2:
        cut = random.randrange(len(events) + 1)
        context, events = tuple(event[:-4] for event in events[:cut]), events[cut:]
    # Without checksums, so that sizes that lie come through, in a part of the cases.
    if checksum := random.random() < 0.8:
        data = b"".join(events)
    else:
        data = b"".join(
            event[:9] + struct.pack("<I", max(len(event) - 4, 0)) + event[13:-4] for event in events
        )
    return corpus, Chunk(start=START, data=data, checksum=checksum, context=context)


def reader(random: Random) -> bool:
    """``TransactionReader.read``: what it returns is no more than the bytes may hold."""
    corpus, chunk = _chunk(random)
    recorded = Recorded()
    reading = TransactionReader(SERVER, corpus.charsets, mariadb=corpus.mariadb)
    try:
        reading.read(chunk, recorded)
    except AqueductError as error:
        sound(error)
        return False
    finally:
        _described(recorded)
    return True


def _described(described: Recorded) -> None:
    for step in described.steps:
        if step.transaction.gtid is not None:
            parse_gtids(step.transaction.gtid)
        if isinstance(step, End):
            demand(step.end.pos >= 0, "a transaction ends before its file begins")


def stage(random: Random) -> bool:
    """A whole decoder: decode, number, encode."""
    corpus, chunk = _chunk(random)
    return staged(corpus, [chunk])


def staged(corpus: Corpus, chunks: Sequence[Chunk]) -> bool:
    """One decoder after the other, chunk by chunk; whether all was accepted."""
    spec = StageSpec(
        rules=RULES,
        server_uuid=SERVER,
        charsets=corpus.charsets,
        epoch=1,
        versions={},
        mariadb=corpus.mariadb,
        server=Server(version=(9, 7, 4), mariadb=corpus.mariadb),
    )
    made, numbers = spec.make(), Numbers(seq=0, safe=START)
    for chunk in chunks:
        decoded = made.decode(CapturedChunk(chunk), ())
        before = numbers.seq
        numbers, _ = decoded.number(numbers, [])
        for piece in decoded.encode():
            demand(piece.seq - before <= 2 * max(chunk.size, 1 << 20), "more values than bytes")
            for source, first, last in piece.trace.gtids:
                demand(0 < first <= last < 1 << 64, f"a run of GTIDs {source}: {first} to {last}")
            if piece.error is not None:
                sound(piece.error)
                return False
    return True


def cutter(random: Random) -> bool:
    """``Cutter`` as it is fed by a socket, and a decoder after it."""
    corpus, events = _some(random)
    if random.random() < 0.9:
        events = mutated(random, events, corpus.events)
    wire = _wire(random, events)
    target = random.choice((64, 500, 3000, 1 << 18))
    cut = Cutter(START, checksum=True, target=target)
    chunks: list[Chunk] = []
    try:
        for part in _parts(random, wire):
            space = cut.space()
            size = min(len(part), len(space))
            demand(size, "no room for what comes")
            demand(size == len(part), "less room than is received at once")
            space[:size] = part
            chunks += cut.take(size)
        if cut.pending:
            chunks.append(cut.flush())
    except AqueductError as error:
        sound(error)
        return False
    finally:
        carried = sum(len(chunk.data) for chunk in chunks if chunk.container is None)
        demand(carried <= len(wire), "more bytes were given out than came")
        for chunk in chunks:
            demand(chunk.data or chunk.passed or chunk is chunks[-1], "an empty chunk")
    return staged(corpus, chunks)


def _wire(random: Random, events: Sequence[bytes]) -> bytes:
    packets = b""
    for number, event in enumerate(events):
        packets += (len(event) + 1).to_bytes(3, "little") + bytes([number & 0xFF, 0]) + event
    if random.random() < 0.1:
        packets = changed(random, packets)
    if random.random() < 0.1:
        at = random.randrange(len(packets) + 1)
        packets = packets[:at] + random.choice(
            (b"\0\0\0\7", b"\1\0\0\7\xfe", b"\xff\xff\xff\7\0", b"\5\0\0\7\xff")
        )
    return packets


_PACKETS = (b"\0\0\0\7", b"\1\0\0\7\xfe", b"\xff\xff\xff\7\0", b"\5\0\0\7\xff")


def _parts(random: Random, wire: bytes) -> Iterator[bytes]:
    at, most = 0, random.choice((1, 30, 1000, 60_000))
    while at < len(wire):
        size = random.randint(1, max(most, len(wire) // 500))
        yield wire[at : at + size]
        at += size


def rows(random: Random) -> bool:
    """``CompiledDecoder``, ``RowDecoder``, ``RowCounter`` and ``row_count`` of the same rows."""
    corpus, pairs = _pairs(random)
    described, kind, body = random.choice(pairs)
    what = random.random()
    if what < 0.3:
        described = changed(random, described)
    elif what < 0.4:
        described = random.choice(pairs)[0]
    if what > 0.2:
        other = random.choice(pairs)[2]
        body = spliced(random, body, other) if random.random() < 0.1 else changed(random, body)
    if random.random() < 0.1:
        kind = int(random.choice(sorted(ROWS_EVENTS)))
    try:
        table_map = parse_table_map(described, mariadb=corpus.mariadb)
    except KIN:
        return False
    return _compared(table_map, corpus.charsets, kind, body)


def _compared(table_map: TableMap, charsets: Charsets, kind: int, body: bytes) -> bool:
    counted = _attempt(lambda: row_count(table_map, kind, body))
    generated = _attempt(lambda: RowCounter(table_map).count(kind, body))
    demand(generated == counted, f"{generated} rows by generated code, {counted} by the walk")
    compiled = plain = None
    # Labels that are no text are a ValueError, of which the reader makes one of our errors.
    with suppress(*KIN):
        compiled = CompiledDecoder(table_map, charsets)
    with suppress(*KIN):
        plain = RowDecoder(table_map, charsets)
    demand((compiled is None) == (plain is None), "one of two decoders could be made")
    if compiled is None or plain is None:
        return False
    ours = _attempt(lambda: list(compiled.decode(kind, body)))
    theirs = _attempt(lambda: list(plain.decode(kind, body)))
    names = [column.name or "" for column in table_map.columns]
    for found in (ours, theirs):
        demand(found is None or len(found) <= len(body), "more rows than bytes")
        demand(
            found is None or counted in (None, len(found)),
            f"{len(found or ())} rows, {counted} counted",
        )
    if not _may_differ(table_map, theirs):
        demand((ours is None) == (theirs is None), f"one refuses: {ours} or {theirs}"[:400])
    if kind == EventType.PARTIAL_UPDATE_ROWS or ours is None or theirs is None:
        return ours is not None
    demand(len(ours) == len(theirs), f"{len(ours)} rows and {len(theirs)}")
    for one, other in zip(ours, theirs, strict=True):
        _same(one, other, names)
    return True


def _may_differ(table_map: TableMap, images: list[RowChange] | None) -> bool:
    """Whether one decoder may refuse what the other takes.

    Generated code does not look at each group of a DECIMAL's digits; it needs a key's values, which an image
    may lack, and columns that a key may not have.
    """
    if any(column.type == FieldType.NEWDECIMAL for column in table_map.columns):
        return True
    if any(index >= len(table_map.columns) for index in table_map.primary_key or ()):
        return True
    rows = images or ()
    return any(ABSENT in (image or ()) for row in rows for image in (row.before, row.after))


def _same(one: RowText, other: RowChange, names: Sequence[str]) -> None:
    before, after = other.before, other.after
    if before is not None and after is not None:
        pairs = zip(before, after, strict=True)
        after = tuple(old if new is ABSENT else new for old, new in pairs)
    for text, image in ((one.before, before), (one.after, after)):
        demand((text is None) == (image is None), "an image is there only once")
        if text is None or image is None:
            continue
        held = {name: v for name, v in zip(names, image, strict=True) if v is not ABSENT}
        demand(orjson.loads(text) == orjson.loads(orjson.dumps(held)), f"{text} is not {held}")
        demand(len(set(names)) == len(names), "two columns of one name")


def _attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except AqueductError:
        return None
    except KIN as error:
        raise Fault(f"no error of ours: {error!r}") from error


_known_pairs: dict[str, list[tuple[bytes, int, bytes]]] = {}


def _pairs(random: Random) -> tuple[Corpus, list[tuple[bytes, int, bytes]]]:
    """Bodies of TABLE_MAPs and of rows events of them."""
    server = random.choice((*SERVERS, SERVERS[0]))
    corpus = corpus_of(server)
    if server not in _known_pairs:
        maps: dict[bytes, bytes] = {}
        found = _known_pairs[server] = []
        for event in corpus.events:
            body, kind = body_of(event), event[4]
            if kind == EventType.TABLE_MAP:
                maps[body[:6]] = body
            elif kind in mariadb.PLAIN_ROWS:
                plain = mariadb.PLAIN_ROWS[mariadb.MariadbEventType(kind)]
                found.append((maps[body[:6]], int(plain), mariadb.uncompressed_rows(kind, body)))
            elif kind in ROWS_EVENTS:
                found.append((maps[body[:6]], kind, body))
    return corpus, _known_pairs[server]


TARGETS: dict[str, tuple[Callable[[Random], bool], int]] = {
    "cutter": (cutter, 20),
    "reader": (reader, 20),
    "stage": (stage, 25),
    "rows": (rows, 25),
    "parsers": (parsers, 20),
    "payloads": (payloads, 2),
    "columns": (columns, 5),
    "documents": (documents, 20),
    "diffs": (diffs, 5),
}
"""By name: what is driven, and how often beside the others."""
