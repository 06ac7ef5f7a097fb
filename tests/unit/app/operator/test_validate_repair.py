"""The repair of a validation: requests by keys; a table that is not repaired is named, and the others are."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.operator import validate
from app.operator.terminal import report_unreachable
from app.operator.validate import Validation, conditions, repair, request_removal, request_repair
from app.operator.validation.errors import NotRepaired
from app.operator.validation.table_result import ExtraRow, TableResult
from connectors.errors import AqueductError, NotApplied, TableUnreadable, UsageError
from connectors.mysql.ddl.definition import TableName
from tables.state.snapshots.snapshot_progress import SnapshotState
from wire.validation import Kind


def test_keys_of_one_column_are_listed() -> None:
    keys = [(str(number),) for number in range(5)]
    assert list(conditions(["i`d"], keys, most=2)) == [
        "`i``d` IN (0, 1)",
        "`i``d` IN (2, 3)",
        "`i``d` IN (4)",
    ]


def test_keys_of_several_columns_are_compared_column_by_column() -> None:
    keys = [("1", "_latin1 X'61'"), ("2", "_latin1 X'62'")]
    assert list(conditions(["a", "b"], keys)) == [
        "(`a` = 1 AND `b` = _latin1 X'61') OR (`a` = 2 AND `b` = _latin1 X'62')"
    ]


def test_no_keys_are_no_condition() -> None:
    assert list(conditions(["a"], [])) == []


async def test_each_condition_is_a_request() -> None:
    requests = Requests()
    keys = [(str(number),) for number in range(201)]
    assert await request_repair(requests, ("shop", "t"), ["id"], keys) == 2
    assert [condition.count(",") for _, condition, _ in requests.all] == [199, 0]
    assert requests.all[1] == (("shop", "t"), "`id` IN (200)", ())


async def test_extra_rows_are_requested_with_the_keys_of_their_records() -> None:
    requests = Requests()
    rows = [ExtraRow(f'{{"id":{number}}}', (str(number),)) for number in range(401)]
    assert await request_removal(requests, ("shop", "t"), ["id"], rows) == 3
    assert [len(removes) for _, _, removes in requests.all] == [200, 200, 1]
    assert requests.all[2] == (("shop", "t"), "`id` IN (400)", ('{"id":400}',))
    for _, condition, removes in requests.all:
        assert condition.count(",") == len(removes) - 1
    assert await request_removal(requests, ("shop", "t"), ["id"], []) == 0


class Requests:
    """What was requested."""

    def __init__(self) -> None:
        self.all: list[tuple[TableName, str, tuple[str, ...]]] = []

    async def __call__(self, table: TableName, condition: str, removes: tuple[str, ...], /) -> None:
        self.all.append((table, condition, removes))


NAMES = [("shop", one) for one in ("a", "b", "c", "equal")]


def found() -> Validation:
    results = [TableResult(name=name, key=("id",)) for name in NAMES]
    for one in results[:-1]:
        one.add(Kind.MISSING, b'{"id":1}', literals=("1",))
    return Validation(destination="shop", tables=tuple(results))


async def lines(monkeypatch: pytest.MonkeyPatch, error: AqueductError) -> list[str]:
    """What is reported where the requests on the second table raise this."""

    async def request(_: Any, __: Any, ___: str, table: TableName, *____: object) -> None:
        if table == NAMES[1]:
            raise error

    monkeypatch.setattr(validate, "_request_rows", request)
    return await repair(cast(Any, None), found(), report_unreachable, by="somebody")


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


def journal_of(
    monkeypatch: pytest.MonkeyPatch, ends: list[SimpleNamespace], unlogged: str | None = None
) -> Any:
    """A journal in which each snapshot that is requested has the next of these ends."""

    async def requested(*_: Any, **__: Any) -> Any:
        return (), SimpleNamespace(offset=7, value=(SimpleNamespace(unlogged=unlogged),))

    async def wait(ended: Callable[[Any], Any], *, after: int, **_: float) -> Any:
        assert after == 7
        state = SimpleNamespace(snapshots=SimpleNamespace(all=dict.fromkeys(NAMES, ends.pop(0))))
        return ended(state)

    monkeypatch.setattr(validate, "request_snapshots", requested)
    return SimpleNamespace(plan=SimpleNamespace(name="shop"), wait=wait)


async def test_one_whose_rows_could_not_all_be_read_before_is_repaired_and_stays_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, meanwhile = (
        SimpleNamespace(state=SnapshotState.FAILED, error=why, is_pending=False)
        for why in ("DROP PARTITION of May", "DROP PARTITION of June")
    )
    journal = journal_of(monkeypatch, [before, meanwhile, before], unlogged=before.error)
    first, second, third = await repair(journal, found(), report_unreachable, by="somebody")
    assert first == "shop.a: 1 row(s) published again, by 1 request(s)"
    assert second.startswith("shop.b: not repaired: NotRepaired: ")
    assert "DROP PARTITION of June" in second
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

    journal = journal_of(monkeypatch, ends)
    first = await repair(journal, found(), report_unreachable, by="somebody")
    assert first[0].startswith("shop.a: not repaired: NotRepaired: ")
    assert "SELECT command denied" in first[0]
    assert "python -m app snapshot status shop" in first[0]
    assert "python -m app validate shop --repair" in first[0]
    again = await repair(journal, found(), report_unreachable, by="somebody")
    assert len(again) == 3
    assert not any("not repaired" in one for one in again)


async def test_a_request_that_no_worker_takes_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotApplied):
        await lines(monkeypatch, NotApplied("not applied within 60 s"))
