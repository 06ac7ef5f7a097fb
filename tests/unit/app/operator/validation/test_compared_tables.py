"""Which tables a validation compares, and what it says of those that it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from app.operator import validate
from app.operator.terminal import report_unreachable
from app.operator.validate import Validation
from app.operator.validation.table_result import TableResult
from connectors.errors import UsageError
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.operator.journals import cursor

ORDERS, USERS, NOTES = (("shop", one) for one in ("orders", "users", "notes"))
TWO_RULES = "tables: {a: {from: ['shop.order.*']}, b: {from: ['shop.orde.*']}}"


class FakePass:
    """The twin of a TopicPass, to which all rows are equal."""

    def __init__(self, **_: Any) -> None:
        pass

    async def compare(self, topic: str, names: Sequence[TableName]) -> list[TableResult]:
        return [TableResult(name=name, topic=topic, rows=1) for name in names]


async def validated(
    monkeypatch: pytest.MonkeyPatch,
    *given: TableName,
    mapping: str | None = None,
    include: str = r"shop\..*",
    unseen: Sequence[TableName] = (),
) -> Validation:
    routes = Routes(
        prefix="aq",
        include=include,
        destination="shop",
        mapping=None if mapping is None else from_yaml(mapping),
    )
    definitions = SimpleNamespace(
        rules=SimpleNamespace(routes=routes),
        tables=dict.fromkeys({ORDERS, USERS, NOTES} - {*unseen}),
        expected=SimpleNamespace(captures=lambda name: routes.captures(*name)),
    )
    state = SimpleNamespace(cursor=cursor(), snapshots=SimpleNamespace(pending=[]))
    follower = SimpleNamespace(follow=returning(None))
    journal = SimpleNamespace(
        options={},
        topic="aq.__journal",
        partition=0,
        state=returning(state),
        plan=SimpleNamespace(journal=None),
    )
    for name, value in {
        "Journal": SimpleNamespace(of=lambda *_: journal),
        "end_of": returning(0),
        "reachable_source": returning(SimpleNamespace(address=None, facts=None)),
        "_check": lambda *_: None,
        "definitions_now": returning(definitions),
        "unseen_tables": lambda *_: dict.fromkeys(unseen, "the account may not see it"),
        "Follower": SimpleNamespace(opened=lambda _: nullcontext(follower)),
        "PublishedPosition": lambda *_, **__: None,
        "TopicPass": FakePass,
    }.items():
        monkeypatch.setattr(validate, name, value)
    settings: Any = None
    return await validate.validate(settings, "shop", tables=given, unreachable=report_unreachable)


def returning(value: Any) -> Any:
    async def call(*_: Any, **__: Any) -> Any:
        return value

    return call


async def test_one_that_the_mapping_does_not_place_keeps_no_other_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await validated(monkeypatch, mapping=TWO_RULES, unseen=[NOTES])
    assert [one.name for one in found.tables] == [NOTES, ORDERS, USERS]
    notes, orders, users = found.tables
    assert notes.not_compared == "the account may not see it"
    assert "which have the same rank" in (orders.not_compared or "")
    assert users.not_compared is None
    assert not found.is_complete
    (alone,) = (await validated(monkeypatch, ORDERS, mapping=TWO_RULES, unseen=[ORDERS])).tables
    assert alone.not_compared == "the account may not see it"


@pytest.mark.parametrize("mapping", [None, TWO_RULES])
async def test_a_destination_without_tables_is_not_equal(
    monkeypatch: pytest.MonkeyPatch, mapping: str | None
) -> None:
    with pytest.raises(UsageError, match="captures no table that exists"):
        await validated(monkeypatch, mapping=mapping, include=r"shpo\..*")
