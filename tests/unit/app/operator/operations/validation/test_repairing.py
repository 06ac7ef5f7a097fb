"""A table whose rows are not published again is named, and the others are repaired."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator.operations.validation import repairing
from app.operator.operations.validation.repairing import repair
from app.operator.operations.validation.validation import Validation
from app.operator.validation.rows.errors import NotRepaired
from app.operator.validation.rows.table_result import Kind, TableResult
from connectors.errors import AqueductError, NotApplied, TableUnreadable, UsageError
from connectors.mysql.ddl.definition import TableName
from tables.state.snapshots.table_snapshot import SnapshotState

NAMES = [("shop", one) for one in ("a", "b", "c", "equal")]


def found() -> Validation:
    results = [TableResult(name=name, key=("id",)) for name in NAMES]
    for one in results[:-1]:
        one.add(Kind.MISSING, b'{"id":1}', literals=("1",))
    return Validation(destination="shop", tables=tuple(results))


async def lines(monkeypatch: pytest.MonkeyPatch, error: AqueductError) -> list[str]:
    """What is reported where the requests on the second table raise this."""

    class Requests:
        def __init__(self, **_: Any) -> None:
            pass

        async def __call__(self, table: TableName, _: str, __: tuple[str, ...] = (), /) -> None:
            if table == NAMES[1]:
                raise error

    monkeypatch.setattr(repairing, "_Requests", Requests)
    done = await repair(cast(Any, None), found(), print, by="somebody")
    return [one.line() for one in done]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            NotRepaired("not within 600 s", destination="shop"),
            "`python -m app snapshot status shop`",
        ),
        (UsageError("is being read already: shop.b"), "is being read already"),
        (TableUnreadable("Lock wait timeout exceeded (error 1205)"), "(error 1205)"),
    ],
)
async def test_the_others_are_repaired(
    monkeypatch: pytest.MonkeyPatch, error: AqueductError, why: str
) -> None:
    first, second, third = await lines(monkeypatch, error)
    assert first == "shop.a: 1 row(s) published again, by 1 request(s)"
    assert second.startswith(f"shop.b: not repaired: {error.name}: ")
    assert why in second
    assert third.startswith("shop.c: 1 row(s)")


@pytest.mark.remedy("NotRepaired")
async def test_one_whose_snapshot_has_failed_is_repaired_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = [
        SimpleNamespace(
            state=SnapshotState.FAILED, error="SELECT command denied", is_pending=False
        ),
        *[SimpleNamespace(state=SnapshotState.DONE, error=None, is_pending=False)] * 5,
    ]

    async def requested(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(offset=7)

    async def wait(has_ended: Callable[[Any], bool], *, after: int, **_: float) -> Any:
        assert after == 7
        state = SimpleNamespace(snapshots=SimpleNamespace(all=dict.fromkeys(NAMES, ends.pop(0))))
        assert has_ended(state)
        return state

    monkeypatch.setattr(repairing, "request_snapshots", requested)
    journal = cast(Any, SimpleNamespace(plan=SimpleNamespace(name="shop"), wait=wait))
    first = [one.line() for one in await repair(journal, found(), print, by="somebody")]
    assert first[0].startswith("shop.a: not repaired: NotRepaired: ")
    assert "SELECT command denied" in first[0]
    assert "python -m app snapshot status shop" in first[0]
    assert "python -m app validate shop --repair" in first[0]
    again = await repair(journal, found(), print, by="somebody")
    assert [one.failed for one in again] == [None] * 3


async def test_a_request_that_no_worker_takes_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotApplied):
        await lines(monkeypatch, NotApplied("not applied within 60 s"))
