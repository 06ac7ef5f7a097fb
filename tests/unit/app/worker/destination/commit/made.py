"""A piece with something for every participant, and the cursors before and after it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from app.worker.destination.plan import Failover, Plan, SnapshotPlan
from app.worker.destination.source_agent import SourceAgent
from app.worker.pipeline.piece import (
    Counts,
    DeadLetter,
    Piece,
    QuarantinedTable,
    SourceTrace,
    TableChanges,
)
from app.worker.status import DestinationStatus
from app.worker.unit.retry_policy import ErrorPolicy
from connectors.mysql.lookup.fingerprint import Fingerprint
from connectors.mysql.position import Coordinates, SourceOffset
from tables.history.position import HistoryPosition
from tables.history.record import CheckpointPolicy
from tables.state.cursor import Cursor
from tables.state.operator_requests import Skip
from tests.made import SERVER
from tests.unit.app.worker.pipeline.runs import RULES

BEGIN, END = Coordinates("b.000001", 4), Coordinates("b.000001", 900)
GTID = f"{SERVER}:7"
SKIP = Skip(destination="shop", transaction=GTID, id="a1", by="anna", why="bad", ts_ms=1)
BEFORE = Cursor(
    destination="shop",
    installation="i",
    epoch=3,
    seq=0,
    versions=0,
    offset=SourceOffset(server_uuid=SERVER, coordinates=BEGIN, gtid_set=None),
)
AFTER = replace(BEFORE, seq=2, offset=replace(BEFORE.offset, coordinates=END))


def piece(**changes: Any) -> Piece:
    """A piece that concerns every participant."""
    position = HistoryPosition(server_uuid=SERVER, start=BEGIN, end=BEGIN, gtid=None, ts_ms=1)
    given: dict[str, Any] = {
        "coordinates": END,
        "seq": 2,
        "version_count": 0,
        "records": 2,
        "size": 20,
        "counts": Counts(
            rows=Counter({"c": 2}),
            events=Counter({(30, "decoded"): 2}),
            statements=Counter({("d", "t"): 1}),
        ),
        "dead_letters": [DeadLetter("shop.t", GTID, "b.000001:4", 1, "bad")],
        "tables": TableChanges(
            quarantined=[
                QuarantinedTable(name=("shop", "odd"), why="its columns differ", since=position)
            ]
        ),
        "trace": SourceTrace(
            fingerprints=[Fingerprint(digest="d1", original_us=0, ts_ms=1, start=BEGIN, end=END)]
        ),
        "committed_ms": 1_000,
    }
    return Piece(**{**given, **changes})


def moving() -> Piece:
    """A piece that only moves the cursor."""
    return Piece(coordinates=END, seq=0, version_count=0)


def run_of(name: str = "shop", *, signals: Any = None, interval: float = 0.0) -> SourceAgent:
    """A run that has nothing open yet."""
    rules = replace(RULES, undecodable_limit=5)
    plan = Plan(
        name=name,
        worker="w",
        reached_at="",
        address=_nothing(),
        start=_nothing(),
        rules=rules,
        topics=_nothing(),
        kafka_options={},
        compression=None,
        interval=interval,
        decoders=0,
        history=CheckpointPolicy(),
        sources=(),
        failover=Failover(),
        accepted=frozenset(),
        snapshot=SnapshotPlan(),
        all_destinations=frozenset({name}),
        merges=frozenset(),
    )
    return SourceAgent(
        plan=plan,
        status=DestinationStatus(name),
        checkpoint=_nothing(),
        policy=ErrorPolicy(),
        signals=signals,
        sources=_nothing(),
    )


def _nothing() -> Any:
    return None
