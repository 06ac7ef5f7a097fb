"""The participants of a commit: their order, and what each does before the commit and only after it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from app import metrics
from app.worker.destination.commit.participants import CommitParticipant, Commits
from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from app.worker.destination.commit.run_participants import (
    DeadLetters,
    FilterCheck,
    OperatorSkips,
    Progress,
    PublishedFingerprints,
    SkippedStatements,
)
from app.worker.destination.commit.signal_rows import SignalRows
from app.worker.destination.snapshot.entries import Entries
from app.worker.destination.source_agent import SourceAgent
from app.worker.pipeline.piece import Piece, SignalRow, TableChanges
from app.worker.schemas.run_schemas import Schemas
from connectors.errors import AqueductError, KafkaLost, UnsupportedEvent
from connectors.kafka.reading import StoredRecord
from connectors.mysql.lookup.skipped_transactions import SkippedTransaction
from tables.journal_format import Entry
from tables.state.cursor import Cursor
from tables.state.operator_requests import SKIP_PART, Skips
from tables.state.quarantine import Quarantine
from tables.state.snapshots.request import (
    SnapshotAction,
    SnapshotRequest,
    after_request,
    request_in,
)
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot
from tests.made import SERVER
from tests.unit.app.worker.destination.commit.made import (
    AFTER,
    BEFORE,
    BEGIN,
    END,
    GTID,
    SKIP,
    moving,
    piece,
    run_of,
)
from tests.unit.tables.made import applied, begun
from tests.unit.tables.state.journal.states import state_with

ORDER: list[type[CommitParticipant]] = [
    Progress,
    OperatorSkips,
    Schemas,
    DeadLetters,
    PublishedFingerprints,
    SkippedStatements,
    FilterCheck,
    SignalRows,
    RenamedTables,
    Entries,
]


class Proven:
    """A cursor that was proven again."""

    async def once(self) -> None:
        """Nothing to prove."""


PROVEN: Any = Proven()


class Scene:
    """A run with every participant, one transaction to skip, and fingerprints that are kept."""

    def __init__(self, name: str) -> None:
        self.run = run_of(name)
        state = state_with(SKIP)
        self.skipping = OperatorSkips(name, state.parts[SKIP_PART], SERVER)
        assert self.skipping.skipper is not None
        self.skipping.skipper.done.append(SkippedTransaction(GTID, BEGIN, END, Counter({30: 1})))
        self.schemas = Schemas(
            None, state.quarantine, self.run.plan.rules, self.run.status, expiry=cast(Any, None)
        )
        led: Any = SimpleNamespace(state=state, names=frozenset({("shop", "t")}))
        spec: Any = SimpleNamespace(fingerprints=True)
        tables = read_tables(name)
        existing = (
            SignalRows(tables),
            RenamedTables(tables, can_replace=lambda _: True),
            Entries(),
        )
        self.commits = self.run._commits(led, spec, self.skipping, self.schemas, existing)


def read_tables(name: str) -> ReadTables:
    return ReadTables(destination=name, captured=lambda _: [("shop", "t")], snapshots={})


def shown(name: str) -> dict[Any, float]:
    """A destination's metrics."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for metric in metrics.REGISTRY.collect()
        for sample in metric.samples
        if sample.labels.get("destination") == name and not sample.name.endswith("_created")
    }


def test_the_participants_of_a_run_and_their_order() -> None:
    assert [type(one) for one in Scene("order").commits.participants] == ORDER


def test_the_journal_records_of_a_transaction_are_in_that_order_after_those_of_the_piece() -> None:
    one = piece(notes=[(b"own", b"1")])
    Scene("records").commits.before(one, BEFORE)
    assert [key for key, _ in one.notes] == [
        b"own",
        f"skip/shop/{SERVER}%3A7".encode(),
        b"quarantine/shop/shop/odd",
        b"fp/shop/0",
    ]


def test_rows_of_the_signal_table_are_requests_in_their_own_transaction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = '{"data-collections": ["shop.t"]}'
    rows = [
        SignalRow(orjson.dumps({"id": name, "type": kind, "data": text}).decode())
        for name, kind, text in (
            ("a", "execute-snapshot", data),
            ("b", "log", "{}"),
            ("c", "execute-snapshot", "{"),
            ("d", "pause-snapshot", "{}"),
        )
    ]
    signals = SignalRows(read_tables("shop"))
    one = piece()
    one.signals = rows
    ((key, value),) = signals.before(one, BEFORE)
    assert key == b"snapshot-request/shop/shop/t"
    assert (
        request_in(StoredRecord(key, value, 3)).by == f"a signal after {BEFORE.offset.coordinates}"
    )
    assert caplog.messages == [], "nothing is said before the commit"
    signals.committed(one, AFTER)
    signals.committed(piece(), AFTER)
    assert len(caplog.messages) == 2, "one cannot be read, one concerns no table"


def test_no_value_of_a_row_of_the_signal_table_is_in_the_journal_or_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signals = SignalRows(read_tables("shop"))
    one, secret = piece(), "4111 1111\n1111 1111" * 1000
    one.signals = [
        SignalRow(orjson.dumps({**row, "id": secret, "more": secret}).decode())
        for row in (STARTS, PAUSES, {**STARTS, "data": "{"})
    ]
    ((key, value),) = signals.before(one, BEFORE)
    signals.committed(one, AFTER)
    assert len(caplog.messages) == 2
    for text in (key.decode(), (value or b"").decode(), *caplog.messages):
        assert "4111" not in text


STARTS = {"id": "a", "type": "execute-snapshot", "data": '{"data-collections": ["shop.t"]}'}
PAUSES, STOPS = ({**STARTS, "type": f"{kind}-snapshot"} for kind in ("pause", "stop"))


def requested(signals: SignalRows, *rows: dict[str, str]) -> list[SnapshotRequest]:
    """The requests of rows in one batch."""
    one = piece()
    one.signals = [SignalRow(orjson.dumps(row).decode()) for row in rows]
    found = [
        request_in(StoredRecord(key, value or b"", 3)) for key, value in signals.before(one, BEFORE)
    ]
    signals.committed(one, AFTER)
    return found


def test_a_start_that_was_not_applied_yet_is_not_replaced_by_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signals = SignalRows(read_tables("shop"))
    again = {**STARTS, "id": "b"}
    assert len(requested(signals, STARTS, again)) == 1
    assert requested(signals, again) == []
    assert requested(signals, PAUSES) == [], "it would replace the start"
    assert len(caplog.messages) == 3
    assert [one.action.value for one in requested(signals, STOPS, STARTS)] == ["stop", "start"]


def test_a_start_in_the_journal_counts_until_it_is_applied_or_another_request_is_made() -> None:
    requests, snapshots = dict[Any, SnapshotRequest](), dict[Any, TableSnapshot]()
    tables = replace(read_tables("shop"), requests=requests.values, snapshots=snapshots)
    signals = SignalRows(tables)
    (start,) = requested(signals, STARTS)
    requests[start.name] = replace(start, offset=7)
    assert requested(SignalRows(tables), STARTS) == []
    requests[start.name] = replace(start, id="other", action=SnapshotAction.STOP, offset=8)
    assert len(requested(signals, STARTS)) == 1
    requests[start.name] = replace(start, offset=9)
    done = after_request(start, None, now_ms=1)
    snapshots[start.name] = replace(done, state=SnapshotState.DONE)
    assert len(requested(signals, STARTS)) == 1


def test_a_table_that_a_signal_names_is_read_by_its_new_name_if_it_is_renamed_right_after() -> None:
    history = begun("t")
    renamed = applied(history, 200, "RENAME TABLE t TO later")
    tables = replace(
        read_tables("shop"), captured=lambda number: history.after(number or 0).tables()
    )
    # The reader's thread has read the statement by then.
    (start,) = requested(SignalRows(tables), STARTS)
    assert start.table == "t"
    following = piece(tables=TableChanges(history=[renamed]))
    notes = RenamedTables(tables, can_replace=lambda _: True).before(following, BEFORE)
    assert [key for key, _ in notes] == [b"snapshot-request/shop/shop/later"]


@pytest.mark.parametrize("at", range(len(ORDER)), ids=[one.__name__ for one in ORDER])
def test_nothing_is_shown_or_counted_before_the_commit(at: int) -> None:
    name = f"shows-{at}"
    scene = Scene(name)
    participant, status = scene.commits.participants[at], scene.run.status
    page, values, one = status.to_json(), shown(name), piece()
    list(participant.before(one, BEFORE))
    assert (status.to_json(), shown(name)) == (page, values)
    participant.committed(one, AFTER)
    changes = (status.to_json(), shown(name)) != (page, values)
    assert changes == (
        ORDER[at] not in (PublishedFingerprints, FilterCheck, SignalRows, RenamedTables, Entries)
    )


class Recording:
    """A participant that notes when it is called, and with which cursor."""

    def __init__(self, name: str, calls: list[Any]) -> None:
        self.name, self.calls = name, calls

    def before(self, _piece: Piece, cursor: Cursor) -> Iterable[Entry]:
        self.calls.append(("before", self.name, cursor))
        return [(self.name.encode(), b"")]

    def committed(self, _piece: Piece, cursor: Cursor) -> None:
        self.calls.append(("committed", self.name, cursor))


class Publishing:
    """A publisher that commits, or fails."""

    def __init__(self, calls: list[Any], fault: Exception | None = None) -> None:
        self.cursor, self.calls, self.fault = BEFORE, calls, fault

    async def publish(self, piece: Piece) -> None:
        self.calls.append(("transaction", [key for key, _ in piece.notes]))
        if self.fault is not None:
            raise self.fault
        self.cursor = AFTER

    async def of_tables(self, error: AqueductError, *_: object) -> AqueductError:
        """It is not that of single topics."""
        return error


class Ends(Exception):
    """Nothing more is to be published."""


async def published(
    run: SourceAgent,
    publisher: Any,
    commits: Commits,
    pieces: list[Piece],
    end: Exception | None = None,
) -> None:
    """Let a run publish these pieces, until the reader ends with an error."""
    pieces, end = pieces[:], end or Ends()

    async def take(**_: Any) -> Piece:
        if not pieces:
            raise end
        return pieces.pop(0)

    async def gather(_: float) -> None:
        await asyncio.sleep(0)

    unused: Any = SimpleNamespace(check=lambda: None, resolutions={}, kafka_lost=None)
    run.signals = unused
    reading: Any = (unused, SimpleNamespace(take=take, gather=gather))
    schemas = Schemas(None, Quarantine(), run.plan.rules, run.status, expiry=cast(Any, None))
    with pytest.raises((type(end), KafkaLost)):
        await run._publish_all(
            publisher,
            reading,
            commits,
            (asyncio.get_running_loop().create_future(),),
            schemas=schemas,
            skipping=OperatorSkips("shop", Skips(), SERVER),
            again=PROVEN,
        )


async def test_each_is_called_before_the_transaction_with_the_old_cursor_and_after_it_with_the_new() -> (
    None
):
    calls: list[Any] = []
    commits = Commits((Recording("a", calls), Recording("b", calls)))
    await published(run_of(), Publishing(calls), commits, [piece()])
    assert calls == [
        ("before", "a", BEFORE),
        ("before", "b", BEFORE),
        ("transaction", [b"a", b"b"]),
        ("committed", "a", AFTER),
        ("committed", "b", AFTER),
    ]


async def test_after_a_transaction_that_did_not_commit_none_is_called() -> None:
    calls: list[Any] = []
    commits = Commits((Recording("a", calls),))
    await published(run_of(), Publishing(calls, KafkaLost("gone")), commits, [piece()])
    assert [call[0] for call in calls] == ["before", "transaction"]


async def test_none_is_called_for_a_piece_that_is_held_until_something_is_worth_a_commit() -> None:
    calls: list[Any] = []
    commits = Commits((Recording("a", calls),))
    await published(run_of(), Publishing(calls), commits, [piece(), moving(), moving()])
    assert [call[0] for call in calls] == ["before", "transaction", "committed"]


async def test_a_piece_that_is_held_is_published_before_the_error_that_ends_the_reader() -> None:
    calls: list[Any] = []
    commits = Commits((Recording("a", calls),))
    end = UnsupportedEvent("of an unknown type")
    await published(run_of(), Publishing(calls), commits, [piece(), moving(), moving()], end)
    assert [call[0] for call in calls] == ["before", "transaction", "committed"] * 2


async def test_an_error_of_the_reader_with_nothing_held_publishes_nothing() -> None:
    calls: list[Any] = []
    commits = Commits((Recording("a", calls),))
    await published(run_of(), Publishing(calls), commits, [piece()], UnsupportedEvent("unknown"))
    assert [call[0] for call in calls] == ["before", "transaction", "committed"]
