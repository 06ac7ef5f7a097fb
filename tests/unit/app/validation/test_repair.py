"""Rows to be published again are requested by their keys, a few hundred at once."""

from __future__ import annotations

from app.validation.repair import conditions, request_repair
from connectors.mysql.ddl.definition import TableName


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
    requested = list[tuple[TableName, str]]()

    async def request(table: TableName, condition: str, /) -> None:
        requested.append((table, condition))

    keys = [(str(number),) for number in range(201)]
    assert await request_repair(request, ("shop", "t"), ["id"], keys) == 2
    assert [condition.count(",") for _, condition in requested] == [199, 0]
    assert requested[1] == (("shop", "t"), "`id` IN (200)")
