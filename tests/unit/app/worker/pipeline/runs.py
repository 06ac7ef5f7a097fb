"""Runs of the stage over a history, and what came out of them, read back from the finished batches."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from aiokafka.record import MemoryRecords

from app.worker.pipeline.decoded import DecodedPortion
from app.worker.pipeline.number import Numbers
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import CapturedChunk, Effect, Portion
from app.worker.pipeline.rules import PublishingRules
from app.worker.pipeline.stage import StageSpec
from connectors.errors import AqueductError
from connectors.mysql.ddl.definition import Server
from connectors.mysql.gtid import GtidSet
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.chunk import Chunk
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor
from tests.made import SERVER as UUID
from tests.unit.app.worker.pipeline.history import CHARSETS, Source
from wire.records import SOURCE

MARKERS = "aq.__transactions.shop"
WHOLE = 1_000_000
RULES = PublishingRules(
    destination="shop",
    routes=Routes(prefix="aq", include=r"shop\..*", partitions=1),
    markers=True,
    compression=None,
    max_bytes=WHOLE,
    max_batch_bytes=WHOLE,
    oversize="stop",
)
EVERYWHERE, NOWHERE = (True,), (False,)
"""The positions at which chunks are cut."""
Versions = dict[tuple[str, str], TableVersion]


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer gets it."""

    topic: str
    partition: int
    key: bytes | None
    value: Any
    """Parsed; None of a tombstone; of what waits in quarantine the bytes."""
    headers: tuple[tuple[str, bytes], ...]

    @property
    def op(self) -> str:
        """The kind of change."""
        return "tombstone" if self.value is None else str(self.value.get("op", "ddl"))

    @property
    def seq(self) -> int:
        """Its number."""
        return int(self.value["source"]["seq"])


def first_cursor(source: Source, *, gtids: bool = True) -> Cursor:
    """Before anything was published."""
    offset = SourceOffset(
        server_uuid=UUID, coordinates=source.first, gtid_set=GtidSet() if gtids else None
    )
    return Cursor(destination="shop", installation="i", epoch=1, seq=0, versions=0, offset=offset)


def spec_of(rules: PublishingRules, cursor: Cursor, known: Versions) -> StageSpec:
    """The parts of a run's decoders."""
    return StageSpec(
        rules=rules,
        server_uuid=UUID,
        charsets=CHARSETS,
        mariadb=False,
        epoch=cursor.epoch,
        versions=dict(known),
        server=Server(version=(9, 7, 4)),
    )


def run(
    chunks: Iterable[Chunk],
    cursor: Cursor,
    known: Versions | None = None,
    rules: PublishingRules = RULES,
) -> list[Piece]:
    """The pieces of one stage, up to the first that holds an error."""
    return run_stage(chunks, cursor, spec_of(rules, cursor, known or {}))


def run_stage(chunks: Iterable[Chunk | Portion], cursor: Cursor, spec: StageSpec) -> list[Piece]:
    """The same with a stage of one's own."""
    stage = spec.make()
    numbers, pieces = Numbers.of(cursor), list[Piece]()
    learned: list[Effect] = []
    for chunk in chunks:
        portion = portion_of(chunk)
        decoded = stage.decode(portion, learned)
        learned = [] if portion.effect is None else [portion.effect]
        numbers, _ = decoded.number(numbers, [])
        pieces += decoded.encode()
        if pieces[-1].error is not None:
            break
    return pieces


def portion_of(chunk: Chunk | Portion) -> Portion:
    """The decoders' input."""
    return CapturedChunk(chunk) if isinstance(chunk, Chunk) else chunk


def pieces_of(
    source: Source,
    cut: Sequence[bool] = NOWHERE,
    *,
    gtids: bool = True,
    partitions: int = 1,
    **rules: Any,
) -> list[Piece]:
    """The pieces of a whole history."""
    cursor = first_cursor(source, gtids=gtids)
    routes = replace(RULES.routes, partitions=partitions)
    rules = {"routes": routes} | rules
    return run(source.chunks(source.first, cut), cursor, rules=replace(RULES, **rules))


def run_by_turns(
    chunks: Sequence[Chunk | Portion],
    cursor: Cursor,
    known: Versions | None = None,
    *,
    rules: PublishingRules = RULES,
    count: int,
    ahead: int,
) -> list[Piece]:
    """The same by several stages, as processes run them: what goes from one to another is pickled, each is
    sent only what it does not know, and decodes further chunks before it numbers one."""
    spec = spec_of(rules, cursor, known or {})
    stages = [pickled(spec).make() for _ in range(count)]
    values = [0] * count
    log: list[TableVersion] = []
    numbers, pieces = Numbers.of(cursor), list[Piece]()
    decoded: list[DecodedPortion] = []
    learned: list[list[Effect]] = [[] for _ in stages]
    for turn, chunk in enumerate([*chunks, *[None] * ahead]):
        if chunk is not None:
            portion, mine = portion_of(chunk), turn % count
            effects, learned[mine] = learned[mine], []
            decoded.append(stages[mine].decode(*pickled((portion, effects))))
            if portion.effect is not None:
                for each in learned:
                    each.append(portion.effect)
        number = turn - ahead
        if 0 <= number < len(chunks):
            who = number % count
            numbers, announced = decoded[number].number(
                pickled(numbers), pickled(log[values[who] :])
            )
            log += pickled(announced)
            values[who] = len(log)
            pieces += pickled(decoded[number].encode())
    return pieces


def pickled(value: Any) -> Any:
    """The object after pickling, as another process receives it."""
    return pickle.loads(pickle.dumps(value))


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Pieces as they may be committed: a partial one with those after it, or not at all."""
    found: list[Piece] = []
    held: Piece | None = None
    for piece in pieces:
        one = pickled(replace(piece, error=None))
        if held is None:
            held = one
        else:
            held.absorb(one)
        if held.whole:
            found.append(held)
            held = None
    return found


def records_of(pieces: Iterable[Piece]) -> list[Record]:
    """The records of some pieces, those of a partition in their order."""
    found: list[Record] = []
    for piece in pieces:
        before = len(found)
        for batch in piece.batches:
            read = list(read_batches(batch.topic, batch.partition, bytes(batch.raw)))
            assert len(read) == batch.records
            found += read
        assert len(found) - before == piece.records
    return found


def read_batches(topic: str, partition: int, raw: bytes) -> Iterable[Record]:
    """The records of batches in partition order."""
    held = MemoryRecords(raw)
    while (batch := held.next_batch()) is not None:
        assert batch.validate_crc()
        assert batch.is_transactional
        for record in batch:
            value: Any = record.value
            if value is not None and "__quarantine" not in topic:
                value = orjson.loads(value)
                # A field that the wire contract does not name would be lost in other formats.
                assert value.get("source", {}).keys() <= SOURCE.keys()
            yield Record(topic, partition, record.key, value, tuple(record.headers))


def by_topic(records: Iterable[Record]) -> dict[str, list[Any]]:
    """Each topic's records, without the numbers of the run that published them."""
    topics: dict[str, list[Any]] = {}
    for record in records:
        value = None if record.value is None else dict(record.value)
        if value is not None:
            value.pop("epoch", None)
            if "source" in value:
                value.pop("ts_ms")
                value["source"] = {**value["source"], "epoch": None}
        topics.setdefault(record.topic, []).append(
            (record.partition, record.key, value, record.headers)
        )
    return topics


def rows_by_topic(records: Iterable[Record]) -> dict[str, list[Any]]:
    """The same without transaction markers, whose parts depend on the run."""
    return by_topic(record for record in records if record.topic != MARKERS)


def assert_markers(pieces: Sequence[Piece]) -> None:
    """Each commit's markers match its contents, and one part of a transaction is the last."""
    parts: dict[str, list[Any]] = {}
    begun: set[str] = set()
    for piece in pieces:
        counts: dict[str, Counter[str]] = {}
        ends: list[Any] = []
        for record in records_of([piece]):
            if record.topic == MARKERS:
                assert orjson.loads(record.key or b"") == {"id": record.value["id"]}
                if record.value["status"] == "BEGIN":
                    assert record.value["id"] not in begun
                    begun.add(record.value["id"])
                else:
                    ends.append(record.value)
            elif record.value is not None and "op" in record.value:
                name = record.value["transaction"]["id"]
                counts.setdefault(name, Counter())[record.topic] += 1
        values = {
            end["id"]: {one["topic"]: one["event_count"] for one in end["data_collections"]}
            for end in ends
        }
        assert len(values) == len(ends)
        assert set(counts) <= begun
        assert {name: count for name, count in values.items() if count} == counts
        for end in ends:
            assert end["id"] in begun
            assert end["event_count"] == sum(values[end["id"]].values())
            parts.setdefault(end["id"], []).append(end)
    for of_one in parts.values():
        numbers = [end["part"] for end in of_one]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert [end["last"] for end in of_one] == [False] * (len(of_one) - 1) + [True]


def gtids_to(number: int) -> GtidSet:
    """The transactions up to this one."""
    return GtidSet({UUID: [(1, number)]} if number else {})


def versions_of(pieces: Sequence[Piece]) -> list[TableVersion]:
    """The versions that some pieces announce."""
    return [version for piece in pieces for version in piece.tables.versions]


def described(piece: Piece) -> Any:
    """A piece without the bytes of its batches, which contain the time."""
    error: AqueductError | None = piece.error
    return (
        by_topic(records_of([piece])),
        [(batch.topic, batch.partition, batch.records) for batch in piece.batches],
        replace(piece, batches=[], error=None, size=0),
        error and str(error),
    )
