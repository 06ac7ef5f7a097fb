"""Canal's flat messages against literal JSON, and a value of each type against what Canal writes for it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from app.worker.pipeline.formats.canal import CANAL
from tests.unit.app.worker.pipeline.formats.envelopes import (
    Image,
    envelope_of,
    read_back,
    version_of,
)

VERSION = version_of(("id", "bigint"), ("note", "varchar(80)"), ("price", "decimal(8,2)"))
ROW = {"id": 7, "note": "Zoë", "price": "12.50"}


def written(before: Image, after: Image, **source: Any) -> bytes:
    return orjson.dumps(CANAL.rows(VERSION)(envelope_of(before, after, **source)))


HEAD = (
    '"database":"trade","es":1795234567123,"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23","id":4711,'
    '"isDdl":false,"mysqlType":{"id":"bigint(20)","note":"varchar(80)","price":"decimal(8,2)"},'
)
TAIL = '"pkNames":["id"],"sql":"","sqlType":{"id":-5,"note":12,"price":3},"table":"orders","ts":1795234567240,'
DATA = '{"data":[{"id":"7","note":"Zoë","price":"12.50"}],'


def test_an_insert() -> None:
    assert written(None, ROW).decode() == f'{DATA}{HEAD}"old":null,{TAIL}"type":"INSERT"}}'


def test_an_update_has_the_old_values_of_changed_columns() -> None:
    was = {**ROW, "note": None, "price": "12.49"}
    old = '"old":[{"note":null,"price":"12.49"}],'
    assert written(was, ROW).decode() == f'{DATA}{HEAD}{old}{TAIL}"type":"UPDATE"}}'


def test_a_delete_has_the_row_before_it() -> None:
    assert written(ROW, None).decode() == f'{DATA}{HEAD}"old":null,{TAIL}"type":"DELETE"}}'


def test_null_stays_null_and_an_update_that_changes_nothing_has_an_empty_object() -> None:
    found = orjson.loads(written({**ROW, "note": None}, {**ROW, "note": None}))
    assert (found["data"][0]["note"], found["old"]) == (None, [{}])


def test_a_partial_image_has_its_columns_alone() -> None:
    found = orjson.loads(written({"id": 7}, {"id": 7, "note": "x"}))
    assert found["data"] == [{"id": "7", "note": "x"}]
    assert found["old"] == [{}]
    assert list(found["sqlType"]) == list(found["mysqlType"]) == ["id", "note"]


def test_a_table_without_mapping_gtid_and_key_has_its_real_names() -> None:
    envelope = envelope_of(None, {"a": 1}, gtid=None)
    del envelope["source"]["logical_db"], envelope["source"]["logical_table"]
    found = CANAL.rows(version_of(("a", "int"), key=()))(envelope)
    assert (found["database"], found["table"]) == ("shop_1", "orders_3")
    assert (found["gtid"], found["pkNames"]) == ("", None)


def test_a_truncate_is_ddl() -> None:
    found = CANAL.truncation(envelope_of(None, None), ("trade", "or`ders"))
    assert orjson.dumps(found).decode() == (
        '{"data":null,"database":"trade","es":1795234567123,"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23",'
        '"id":4711,"isDdl":true,"mysqlType":null,"old":null,"pkNames":null,"sql":"TRUNCATE TABLE `or``ders`",'
        '"sqlType":null,"table":"or`ders","ts":1795234567240,"type":"TRUNCATE"}'
    )
    assert CANAL.committed_ms(found) == 1795234567123


@pytest.mark.parametrize(
    ("kind", "value", "text", "sql_type"),
    [
        ("tinyint", -128, "-128", -6),
        ("tinyint unsigned", 127, "127", -6),
        ("tinyint unsigned", 128, "128", 5),
        ("smallint", -1, "-1", 5),
        ("smallint unsigned", 65535, "65535", 4),
        ("mediumint", 1, "1", 4),
        ("mediumint unsigned", 16777215, "16777215", 4),
        ("int", -2147483648, "-2147483648", 4),
        ("int unsigned", 4294967295, "4294967295", -5),
        ("bigint", -9223372036854775808, "-9223372036854775808", -5),
        ("bigint unsigned", 18446744073709551615, "18446744073709551615", 3),
        ("year", 2026, "2026", 12),
        ("year", 0, "0000", 12),
        ("decimal(65,30)", "-0.000000000000000000000000000001", "-0.000000000000000000000000000001", 3),
        ("float", 0.1, "0.1", 7),
        ("float", 1e-45, "1.4E-45", 7),
        ("float unsigned", 3, "3.0", 7),
        ("double", 1e16, "1.0E16", 8),
        ("bit(1)", "AQ==", "1", -7),
        ("bit(64)", "//////////8=", "18446744073709551615", -7),
        ("date", "2026-11-21", "2026-11-21", 91),
        ("date", "0000-00-00", "0000-00-00", 91),
        ("datetime(6)", "2026-11-21T10:15:00.123456", "2026-11-21 10:15:00.123456", 93),
        ("datetime", "0000-00-00 00:00:00", "0000-00-00 00:00:00", 93),
        ("timestamp(3)", "2026-11-21T09:15:00.100Z", "2026-11-21 09:15:00.100", 93),
        ("time(2)", "-838:59:59.00", "-838:59:59.00", 92),
        ("char(20)", "Zoë", "Zoë", 1),
        ("varchar(80)", "2026T1Z", "2026T1Z", 12),
        ("tinytext", "x", "x", 2005),
        ("longtext", "", "", 2005),
        ("binary(4)", "AAH/AA==", "\x00\x01\xff\x00", 2004),
        ("varbinary(9)", "", "", 2004),
        ("mediumblob", "AP8=", "\x00\xff", 2004),
        ("enum('new','it''s')", "it's", "2", 4),
        ("enum('new','paid')", "", "0", 4),
        ("enum('new','')", "", "2", 4),
        ("set('a','b','c')", "a,c", "5", -7),
        ("set('a','b','c')", "", "0", -7),
        ("json", '{"a": 1.0}', '{"a": 1.0}', 12),
        ("point", {"srid": 4326, "wkb": "AQEAAAA="}, "\xe6\x10\x00\x00\x01\x01\x00\x00\x00", 2004),
        ("vector(2)", [0.5, -1.25], "[0.5,-1.25]", 1111),
    ],
)  # fmt: skip
def test_each_type(kind: str, value: Any, text: str, sql_type: int) -> None:
    found = CANAL.rows(version_of(("a", kind), key=()))(envelope_of(None, {"a": value}))
    again = orjson.loads(orjson.dumps(found))
    assert again["data"] == [{"a": text}]
    assert again["sqlType"] == {"a": sql_type}
    assert again["mysqlType"] == {"a": "bigint(20)" if kind == "bigint" else kind}
    restored = read_back(CANAL, kind, found)
    assert CANAL.rows(version_of(("a", kind), key=()))(envelope_of(None, restored)) == found
