"""Maxwell's rows against literal JSON, and a value of each type against what Maxwell writes for it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import orjson
import pytest

from app.worker.pipeline.formats.maxwell import MAXWELL
from tests.unit.app.worker.pipeline.formats.envelopes import (
    Image,
    envelope_of,
    read_back,
    version_of,
)

VERSION = version_of(("id", "bigint"), ("note", "varchar(80)"), ("price", "decimal(8,2)"))
ROW = {"id": 7, "note": "Zoë", "price": "12.50"}
DATA = '"data":{"id":7,"note":"Zoë","price":12.50}'


def written(before: Image, after: Image, **source: Any) -> str:
    return orjson.dumps(MAXWELL.rows(VERSION)(envelope_of(before, after, **source))).decode()


def exact(found: object) -> object:
    return json.loads(orjson.dumps(found), parse_float=Decimal)


def head(kind: str) -> str:
    return (
        f'{{"database":"trade","table":"orders","type":"{kind}","ts":1795234567,"xid":4710,'
        '"position":"binlog.000002:1543","gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23","server_id":1,'
        '"thread_id":12,'
    )


def test_an_insert() -> None:
    assert written(None, ROW) == f"{head('insert')}{DATA}}}"


def test_an_update_has_the_old_values_of_changed_columns() -> None:
    was = {**ROW, "note": None, "price": "12.49"}
    assert written(was, ROW) == f'{head("update")}{DATA},"old":{{"note":null,"price":12.49}}}}'


def test_an_update_that_changes_nothing_has_no_old_values() -> None:
    assert written(ROW, ROW) == f"{head('update')}{DATA}}}"


def test_a_delete_has_the_row_before_it() -> None:
    assert written(ROW, None) == f"{head('delete')}{DATA}}}"


def test_a_partial_image_after_is_completed_by_the_key_before() -> None:
    found = orjson.loads(written({"id": 7}, {"note": "x"}))
    assert found["data"] == {"note": "x", "id": 7}
    assert "old" not in found


def test_what_the_source_does_not_log_is_left_away_and_its_statement_is_added() -> None:
    found = orjson.loads(written(None, ROW, gtid=None, thread=None, query="INSERT …"))
    assert found.keys().isdisjoint({"gtid", "thread_id"})
    assert found["query"] == "INSERT …"


def test_a_zero_that_changes_its_sign_is_a_change() -> None:
    rows = MAXWELL.rows(version_of(("a", "double")))
    found = orjson.dumps(rows(envelope_of({"a": 0.0}, {"a": -0.0}))).decode()
    assert found.endswith('"data":{"a":-0.0},"old":{"a":0.0}}')


def test_a_truncate_states_the_statement() -> None:
    found = MAXWELL.truncation(envelope_of(None, None), ("trade", "orders"))
    assert (found["type"], found["sql"]) == ("table-truncate", "TRUNCATE TABLE `orders`")
    assert (found["database"], found["table"], "data" in found) == ("trade", "orders", False)
    assert MAXWELL.committed_ms(found) == 1795234567000


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("tinyint", -128, "-128"),
        ("bigint unsigned", 18446744073709551615, "18446744073709551615"),
        ("year", 0, "0"),
        ("decimal(65,30)", "-0.000000000000000000000000000001", "-0.000000000000000000000000000001"),
        ("decimal(65,0)", "9" * 65, "9" * 65),
        ("float", 0.1, "0.1"),
        ("double", 1.7976931348623157e308, "1.7976931348623157e+308"),
        ("bit(1)", "AQ==", "1"),
        ("bit(64)", "//////////8=", "18446744073709551615"),
        ("bit(9)", "AQA=", "256"),
        ("date", "2026-11-21", '"2026-11-21"'),
        ("datetime(6)", "2026-11-21T10:15:00.123456", '"2026-11-21 10:15:00.123456"'),
        ("datetime", "0000-00-00 00:00:00", '"0000-00-00 00:00:00"'),
        ("timestamp(3)", "2026-11-21T09:15:00.100Z", '"2026-11-21 09:15:00.100"'),
        ("time(2)", "-838:59:59.00", '"-838:59:59.00"'),
        ("char(20)", "Zoë", '"Zoë"'),
        ("varchar(80)", "2026T1Z", '"2026T1Z"'),
        ("text", 'a"b', r'"a\"b"'),
        ("binary(4)", "AAH/AA==", '"AAH/AA=="'),
        ("blob", "AP8=", '"AP8="'),
        ("enum('new','it''s')", "it's", '"it\'s"'),
        ("enum('new','paid')", "", "null"),
        ("enum('new','')", "", '""'),
        ("set('a','b','c')", "a,c", '["a","c"]'),
        ("set('a','b','c')", "", "[]"),
        ("json", '{"a": 1.0, "b": [null]}', '{"a": 1.0, "b": [null]}'),
        ("json", "{no JSON", '"{no JSON"'),
        ("point", {"srid": 0, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA"}, '"POINT (1 2)"'),
        ("vector(2)", [0.5, -1.25], "[0.5,-1.25]"),
    ],
)  # fmt: skip
def test_each_type(kind: str, value: Any, text: str) -> None:
    found = MAXWELL.rows(version_of(("a", kind), key=()))(envelope_of(None, {"a": value}))
    assert orjson.dumps(found).decode().endswith(f'"data":{{"a":{text}}}}}')
    restored = read_back(MAXWELL, kind, found)
    again = MAXWELL.rows(version_of(("a", kind), key=()))(envelope_of(None, restored))
    # JSON has no spaces then.
    assert exact(again) == exact(found)
