"""Rows to be published again are requested by their keys, a few hundred at once."""

from __future__ import annotations

from app.operator.validation.rows.extra_rows import ExtraRow
from app.operator.validation.rows.repair import conditions, request_removal, request_repair
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

    async def __call__(
        self, table: TableName, condition: str, removes: tuple[str, ...] = (), /
    ) -> None:
        self.all.append((table, condition, removes))
