"""`snapshot start` and `stop`: the tables that they refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from app.operator import snapshot
from app.operator.terminal import report_unreachable
from connectors.errors import UsageError
from connectors.kafka.reading import StoredRecord
from tables.state.snapshots.request import (
    SNAPSHOT_REQUEST_PART,
    SnapshotAction,
    SnapshotRequest,
    SnapshotRequests,
    after_request,
    request_in,
)
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot
from tests.unit.tables.made import begun


def journal_with(
    monkeypatch: pytest.MonkeyPatch,
    snapshots: Iterable[TableSnapshot],
    requests: Iterable[SnapshotRequest] = (),
) -> Any:
    """The journal of a destination with the table orders, and commands that reach its source."""
    known = SnapshotRequests({one.name: one for one in requests})
    found = SimpleNamespace(
        history=lambda: begun("orders"),
        snapshots=SimpleNamespace(all={one.name: one for one in snapshots}),
        parts={SNAPSHOT_REQUEST_PART: known},
    )

    async def now(*_: Any) -> Any:
        return found

    routes = SimpleNamespace(captures=lambda *_: True)
    plan = SimpleNamespace(name="shop", rules=SimpleNamespace(routes=routes))
    source = SimpleNamespace(address=None, facts=None)

    async def reached(*_: Any) -> Any:
        return source

    monkeypatch.setattr(snapshot, "reachable_source", reached)
    monkeypatch.setattr(snapshot, "unseen_tables", lambda *_: {})
    return SimpleNamespace(plan=plan, state=now, found=found)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (SnapshotState.WAITING, "is being read already: shop.orders; .*`snapshot stop`"),
        (SnapshotState.READING, "is being read already: shop.orders; .*`snapshot stop`"),
        (
            SnapshotState.PAUSED,
            "its reading is paused: shop.orders; .*`snapshot resume`.*`snapshot stop`",
        ),
    ],
)
@pytest.mark.parametrize(("where", "removes"), [(None, ()), ("`id` IN (1)", ('{"id":1}',))])
async def test_rows_that_are_still_to_be_read_are_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
    state: SnapshotState,
    why: str,
    where: str | None,
    removes: tuple[str, ...],
) -> None:
    one = TableSnapshot(destination="shop", database="shop", table="orders", id="1", state=state)
    journal = journal_with(monkeypatch, [one])
    with pytest.raises(UsageError, match=why):
        await snapshot.request_snapshots(
            journal,
            SnapshotAction.START,
            [one.name],
            report_unreachable,
            where=where,
            removes=removes,
            by="somebody",
            wait=None,
        )


START = SnapshotRequest(
    destination="shop", database="shop", table="orders", id="1", action=SnapshotAction.START,
    where="id < 9", by="anna", ts_ms=1,
)  # fmt: skip


@pytest.mark.parametrize("state", [None, SnapshotState.DONE])
async def test_a_start_that_was_not_applied_yet_is_not_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch, state: SnapshotState | None
) -> None:
    done = TableSnapshot(destination="shop", database="shop", table="orders", id="0")
    known = [] if state is None else [replace(done, state=state)]
    journal = journal_with(monkeypatch, known, [START])
    with pytest.raises(UsageError, match=r"is being read already: shop\.orders; .*`snapshot stop`"):
        await snapshot.request_snapshots(
            journal, SnapshotAction.START, [], report_unreachable, by="bert", wait=None
        )
    with pytest.raises(UsageError, match=r"cannot pause table shop\.orders"):
        await snapshot.request_snapshots(
            journal, SnapshotAction.PAUSE, [START.name], report_unreachable, by="bert", wait=None
        )


@pytest.mark.parametrize("state", [None, SnapshotState.DONE])
async def test_a_start_that_was_not_applied_yet_is_stopped_also_without_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, state: SnapshotState | None
) -> None:
    done = TableSnapshot(destination="shop", database="shop", table="orders", id="0")
    known = [] if state is None else [replace(done, state=state)]
    journal = journal_with(monkeypatch, known, [START])
    begun = after_request(START, known[0] if known else None, now_ms=8)

    def later(stop: SnapshotRequest) -> list[list[TableSnapshot]]:
        # The worker may have begun to apply the start before it receives the stop.
        return [[], [begun], [after_request(stop, begun, now_ms=9)]]

    requests, *answers = await answers_to(
        monkeypatch, journal, SnapshotAction.STOP, known=known, later=later
    )
    assert [(one.name, one.action) for one in requests] == [(START.name, SnapshotAction.STOP)]
    *before, (after,) = answers
    assert before == [None, None]
    assert (after.state, after.rows) == (SnapshotState.STOPPED, 0)


@pytest.mark.parametrize("action", [SnapshotAction.PAUSE, SnapshotAction.STOP])
async def test_a_request_is_not_answered_by_other_records_that_follow_it(
    monkeypatch: pytest.MonkeyPatch, action: SnapshotAction
) -> None:
    reading = TableSnapshot(
        destination="shop", database="shop", table="orders", id="0", state=SnapshotState.READING
    )
    journal = journal_with(monkeypatch, [reading])
    other = replace(reading, table="lines")

    def later(request: SnapshotRequest) -> list[list[TableSnapshot]]:
        # A cursor, a chunk of another table, a chunk that was under way, and then the end.
        chunk = replace(reading, chunks=1, rows=5)
        return [[], [other], [other, chunk], [other, after_request(request, chunk, now_ms=9)]]

    _, *answers = await answers_to(monkeypatch, journal, action, known=[reading], later=later)
    *before, (after,) = answers
    assert before == [None, None, None]
    ended = SnapshotState.PAUSED if action is SnapshotAction.PAUSE else SnapshotState.STOPPED
    assert (after.state, after.rows) == (ended, 5)


async def answers_to(
    monkeypatch: pytest.MonkeyPatch,
    journal: Any,
    action: SnapshotAction,
    *,
    known: Iterable[TableSnapshot],
    later: Callable[[SnapshotRequest], list[list[TableSnapshot]]],
) -> list[Any]:
    """Request an action; the requests, and the answer in each state that records after the request make."""
    answers: list[Any] = []

    async def answer_to(_journal: Any, notes: Any, applied: Any, **_: Any) -> None:
        key, value = notes[0]
        for states in later(request_in(StoredRecord(key, value, 2))):
            made = {one.name: one for one in states}
            answers.append(applied(SimpleNamespace(snapshots=SimpleNamespace(all=made))))

    monkeypatch.setattr(snapshot, "answer_to", answer_to)
    requests, _ = await snapshot.request_snapshots(
        journal, action, [], report_unreachable, by="bert", wait=1.0
    )
    assert {one.name: one for one in known} == journal.found.snapshots.all
    return [requests, *answers]
