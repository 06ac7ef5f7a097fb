"""What the soak's verdict makes of statements on tables with rules in the mapping."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.crash.soak.verdict import Table, folded, united
from tests.unit.spark_sink.batch.drops_and_renames.statements import create, drop, rename

Record = tuple[bytes | None, dict[str, Any]]


def row(seq: int, table: str, key: int, *, op: str = "c") -> Record:
    source = {"table": table, "schema": 1, "seq": seq}
    image = {"id": key}
    return orjson.dumps({"__shard": ["shop", table], "id": key}), {
        "source": source, "op": op, "before": None, "after": image,
    }  # fmt: skip


def gone(seq: int, table: str) -> Record:
    return None, {"source": {"table": table, "schema": 1, "seq": seq}, "op": "t"}


def ddl(text: str, *mapped: str, omitted: str = "") -> Record:
    """A statement; a mapping applies to the `mapped` tables, and nothing is published for one of them."""
    value = orjson.loads(text)
    value["effects"] = [
        {"kind": kind, "database": "shop", "table": name, "logical": {"table": name}}
        for name in mapped
        for kind in ("any", *(["truncate omitted"] if name == omitted else []))
    ]
    return None, value


def numbers(*records: Record) -> dict[str, tuple[int, bool]]:
    """How many rows each table has, and whether they were kept."""
    return {name: (one.number, one.is_kept) for name, one in folded(records).items() if one.number}


@pytest.mark.parametrize("is_created", [False, True])
def test_only_a_record_removes_the_rows_of_a_mapped_table(*, is_created: bool) -> None:
    statements = [ddl(drop(2, "a"), "a"), *([ddl(create(3, "a"), "a")] if is_created else [])]
    assert numbers(row(1, "a", 1), *statements) == {"a": (1, False)}
    assert numbers(row(1, "a", 1), *statements, gone(4, "a"), row(5, "a", 2)) == {"a": (1, False)}
    assert numbers(row(1, "a", 1), ddl(drop(2, "a"))) == {}


def test_rows_of_a_mapped_table_do_not_move_and_those_of_another_end_with_their_name() -> None:
    first = row(1, "a", 1), row(2, "a_load", 2), row(3, "a_load", 3)
    swap = rename(4, ("a", "a_old"), ("a_load", "a"))
    assert numbers(*first, ddl(swap, "a")) == {"a": (1, False)}
    assert numbers(*first, ddl(swap)) == {"a_old": (1, False), "a": (2, False)}
    # From one shard to another, and of a name that had rows before.
    assert numbers(*first, row(4, "a_old", 9), ddl(rename(5, ("a", "a_old")), "a", "a_old")) == {
        "a": (1, False), "a_load": (2, False), "a_old": (1, False),
    }  # fmt: skip
    assert numbers(*first, row(4, "a_old", 9), ddl(rename(5, ("a", "a_old")), "a")) == {
        "a": (1, False), "a_load": (2, False),
    }  # fmt: skip


def test_rows_that_a_setting_keeps_are_there_until_a_later_truncate() -> None:
    kept = row(1, "a", 1), ddl(drop(2, "a"), "a", omitted="a")
    assert numbers(*kept) == {"a": (1, True)}
    assert numbers(*kept, gone(3, "a"), row(4, "a", 2)) == {"a": (1, False)}


def test_shards_are_compared_by_the_columns_that_all_of_them_have() -> None:
    one = Table(kinds={"id": "int", "v": "int"}, key=("id",), rows=[{"id": 1, "v": 1}])
    other = Table(kinds={"id": "int", "c2": "int"}, key=("id",), rows=[{"id": 1, "c2": None}])
    both = united([one, other])
    assert (both.kinds, both.key, len(both.rows)) == ({"id": "int"}, ("id",), 2)
