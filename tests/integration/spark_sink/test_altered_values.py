"""What an ALTER TABLE makes of values: the warehouse's expressions against the rows that a server wrote.

Each type is changed into each other one, by a session without strict mode, which converts what the strict
one refuses.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.worker.pipeline.gather.captured_tables import CapturedTable, CapturedTables
from devstack.mysql import Mysql
from spark_sink.source.altered_kinds import Altered
from spark_sink.source.altered_values import altered
from spark_sink.source.column_reading import reading
from spark_sink.source.schemas import Column
from spark_sink.text.quoting import literal
from tables.rules.routes.routes import Routes
from tests.harness.servers import Servers, on_demand
from tests.harness.sql import run
from tests.integration.ddl.conftest import OPTIONS, set_up
from tests.integration.ddl_tools.source import server_of, steps, table_of
from tests.integration.old_mysql.source import charsets_of
from tests.steps import Rows
from tests.unit.spark_sink.conftest import spark
from wire.warehouse_types import widened

__all__ = ["spark"]
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
DATABASE = "altered"
ZONE = "+02:00"
_AT_ONCE = 12
"""Columns in one query: Spark compiles the whole of it."""

NUMBERS = ["0", "1", "-1", "7", "100", "127", "128", "200", "-200", "40000", "2000", "69", "1970", "3000000000",
           "-3000000000", "18446744073709551615"]  # fmt: skip
FRACTIONS = [
    *NUMBERS,
    "10.75",
    "0.5",
    "1.5",
    "2.5",
    "-0.5",
    "-0.4",
    "0.005",
    "99999.995",
    "0.1",
    "123456.789",
    "1999.5",
]
WORDS = ["", "a", "b", "A", "a ", " a", "12", "12.5", "-7", "12abc", "a,b", "b,a", "ë", "中", "😀",
         "2020-01-02", "0123456789abcdef", "true", "1e3", "{}"]  # fmt: skip
CLOCKS = ["2020-01-02", "1999-12-31 23:59:59.999999", "2020-06-01 12:00:00", "2020-06-01 12:00:00.5",
          "2030-02-03 04:05:06.7", "2020-06-01 12:00:00.120000", "0000-00-00",
          "1970-01-01 00:00:00"]  # fmt: skip
TIMES = ["00:00:00", "12:34:56", "-838:59:59", "12:34:56.5", "12:34:56.123456", "23:59:59.999999"]
HEX = ["", "00", "61", "6100", "c3ab", "ff", "0102030405060708090a", "31"]
_SAMPLES: tuple[tuple[str, list[str]], ...] = (
    (
        "tinyint|tinyint unsigned|smallint|int|int unsigned|bigint|bigint unsigned|int(5) zerofill|year",
        NUMBERS,
    ),
    (
        "decimal(10,2)|decimal(10,2) unsigned|decimal(5)|decimal(20,4)|decimal(38,10)|decimal(65,30)",
        FRACTIONS,
    ),
    ("float|double|float(7,2)|float unsigned", FRACTIONS),
    ("bit(1)", ["0", "1"]),
    ("bit(9)", ["0", "1", "256", "511"]),
    ("bit(12)", ["0", "1", "256", "4095"]),
    ("varchar(20)|varchar(4)|char(20)|char(4)|text|tinytext", WORDS),
    ("varchar(20) CHARACTER SET latin1|varchar(20) CHARACTER SET ascii", WORDS),
    ("varchar(20) CHARACTER SET utf8mb3|varchar(20) CHARACTER SET gbk", WORDS),
    ("enum('a','b')|enum('b','a')|enum('a','b','c')|enum('a')", ["a", "b", ""]),
    ("set('a','b')|set('b','a')|set('a','b','c')|set('a')", ["", "a", "b", "a,b"]),
    ("date|datetime|datetime(3)|datetime(6)", CLOCKS),
    ("timestamp NULL|timestamp(3) NULL|timestamp(6) NULL", CLOCKS),
    ("time|time(3)|time(6)", TIMES),
    ("binary(4)|binary(8)|varbinary(4)|varbinary(20)|tinyblob|blob", HEX),
    ("json", ["null", "1", '"a"', '{"a": [1, 2.50, "ë"]}', "[]"]),
    ("geometry", ["POINT(1 2)", "LINESTRING(0 0,1 1)"]),
    ("point", ["POINT(1 2)"]),
)
SAMPLES = {kind: values for kinds, values in _SAMPLES for kind in kinds.split("|")}
SOME = ("int", "tinyint unsigned", "decimal(10,2)", "decimal(38,10)", "double", "varchar(4)",
        "varchar(20) CHARACTER SET latin1", "enum('b','a')", "datetime", "time", "varbinary(4)", "set('b','a')",
        "float unsigned", "year")  # fmt: skip
"""The new types that `make test` tries."""
FROM = ("decimal(10,2)", "varchar(20)", "datetime(3)", "set('a','b')", "float")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A server of each series that is asked for."""
    with on_demand(tmp_path_factory, OPTIONS) as server:
        yield lambda name: server(set_up(name))


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Spark compiles no code: that takes most of the time of thousands of expressions over some rows each."""
    wanted = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in wanted}
    for name, text in wanted.items():
        spark.conf.set(name, text)
    yield
    for name, value in before.items():
        spark.conf.set(name, value or "")


@pytest.mark.long("unit/spark_sink/warehouse/test_altered_rows.py has the conversions")
def test_values_become_what_the_server_makes_of_them_or_are_not_known(
    servers: Servers, spark: SparkSession
) -> None:
    assert wrong(servers("9.7"), spark, FROM, SOME) == []


@pytest.mark.long("some pairs of types on the newest server")
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("name", ["9.7", "8.0", "5.7", "mariadb-11.8"])
def test_each_type_becomes_each_other_one_as_on_the_server(
    servers: Servers, spark: SparkSession, name: str
) -> None:
    assert wrong(servers(name), spark, tuple(SAMPLES), tuple(SAMPLES)) == []


def wrong(
    mysql: Mysql, spark: SparkSession, olds: tuple[str, ...], news: tuple[str, ...]
) -> list[str]:
    """The values that differ from the server's."""
    run(
        mysql,
        f"DROP DATABASE IF EXISTS {DATABASE}",
        f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
    )
    found: list[str] = []
    counted = {"kept": 0, "computed": 0, "unknown": 0}
    for old in olds:
        found += _of_type(mysql, spark, old, news, counted)
    assert counted["kept"]
    assert counted["computed"]
    return found


def _of_type(
    mysql: Mysql, spark: SparkSession, old: str, news: tuple[str, ...], counted: dict[str, int]
) -> list[str]:
    # A column of each new type, all filled alike; of some types a further one that is never NULL.
    wanted = [(new, "") for new in news]
    wanted += [(new, " NOT NULL") for n, new in enumerate(news) if n % 3 == len(old) % 3]
    while True:
        before, after = _altered_at(mysql, old, wanted)
        if after is not None:
            break
        # A conversion that is refused in every mode.
        wanted = [one for one in wanted if _is_possible(mysql, old, one)]
    difference = []
    computed: list[tuple[str, Altered, Column, Column, list[tuple[Any, Any]]]] = []
    (olds_of, old_rows), (news_of, new_rows) = before, after
    for n, (new, null) in enumerate(wanted):
        one, other = olds_of[n + 1], news_of[n + 1]
        pairs = [(old_rows[i][one.name], new_rows[i][one.name]) for i in sorted(old_rows)]
        label = f"{old} -> {new}{null}"
        how = altered(one, other)
        if how is None:
            counted["kept"] += len(pairs)
            difference += [
                f"{label}: {a!r} kept, {b!r} at the server"
                for a, b in pairs
                if not _same(a, b, one, other)
            ]
        elif how.unknown == "true":
            counted["unknown"] += len(pairs)
        else:
            computed.append((label, how, one, other, pairs))
    for first in range(0, len(computed), _AT_ONCE):
        difference += _computed(spark, computed[first : first + _AT_ONCE], counted)
    return difference


def _altered_at(mysql: Mysql, old: str, wanted: list[tuple[str, str]]) -> tuple[Any, Any]:
    columns = ", ".join(f"c{n} {old}" for n in range(len(wanted)))
    table = f"{DATABASE}.t"
    each = ", ".join(f"c{n}" for n in range(len(wanted)))
    run(
        mysql,
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})",
    )
    rows = ", ".join(
        f"({i}, {', '.join([_sql(old, text)] * len(wanted))})"
        for i, text in enumerate([*SAMPLES[old], None])
    )
    session = ["SET sql_mode = ''", f"SET time_zone = '{ZONE}'"]
    before = _read(mysql, *session, f"INSERT INTO {table} (id, {each}) VALUES {rows}")
    change = ", ".join(
        f"MODIFY c{n} {_nullable(new, null)}" for n, (new, null) in enumerate(wanted)
    )
    try:
        run(mysql, *session, f"ALTER TABLE {table} {change}")
    except Exception:
        return before, None
    run(mysql, f"DROP TABLE IF EXISTS {DATABASE}.u", f"CREATE TABLE {DATABASE}.u LIKE {table}",
        f"RENAME TABLE {table} TO {DATABASE}.v, {DATABASE}.u TO {table}")  # fmt: skip
    after = _read(mysql, *session, f"INSERT INTO {table} SELECT * FROM {DATABASE}.v")
    run(mysql, f"DROP TABLE {DATABASE}.v")
    return before, after


def _nullable(new: str, null: str) -> str:
    return f"{new.removesuffix(' NULL')} NOT NULL" if null else new


def _is_possible(mysql: Mysql, old: str, one: tuple[str, str]) -> bool:
    return _altered_at(mysql, old, [one])[1] is not None


def _sql(kind: str, text: str | None) -> str:
    if text is None:
        return "NULL"
    if kind in {"geometry", "point"}:
        return f"ST_GeomFromText('{text}')"
    if "bit(" in kind:
        return text
    if (
        (kind[0] == "b" and kind != "bigint" and "int" not in kind)
        or "blob" in kind
        or "varbinary" in kind
    ):
        return f"x'{text}'"
    return "'" + text.replace("'", "''") + "'"


def _read(mysql: Mysql, *statements: str) -> tuple[list[Column], dict[int, dict[str, Any]]]:
    """The columns, and the rows as records have them, of what the statements insert into the table."""
    charsets, server = charsets_of(mysql), server_of(mysql)
    found = steps(mysql, *statements)
    known = {(DATABASE, "t"): table_of(mysql, DATABASE, "t")}
    tables = CapturedTables(Routes(prefix="aq"), charsets, server=server, known=known)
    rows: dict[int, dict[str, Any]] = {}
    columns: list[Column] = []
    for step in found:
        if not isinstance(step, Rows):
            continue
        met = tables.of(step.table_map)
        assert isinstance(met, CapturedTable)
        columns = [
            Column(
                one.name,
                one.type,
                reading(one.type),
                column_type=one.column_type or "",
                charset=one.charset or "",
                nullable=one.nullable,
            )
            for one in met.definition.columns
        ]
        for _, after, *_ in met.rows(step.event_type, step.body):
            row = json.loads(after or "", parse_float=str)
            rows[row["id"]] = row
    return columns, rows


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _same(old: Any, new: Any, one: Column, other: Column) -> bool:
    if old == new:
        return True
    if old is None or new is None:
        return False
    if one.reading.type in {"string", "binary"} or other.reading.type in {"string", "binary"}:
        return False
    if one.reading.type == "float" and other.reading.type == "double":
        # The text of a FLOAT is the shortest one.
        return _as_float(old) == float(new)
    try:
        return Decimal(str(old)) == Decimal(str(new)) or float(old) == float(new)
    except (InvalidOperation, ValueError):
        return False


def _as_float(text: Any) -> float:
    return float(struct.unpack("f", struct.pack("f", float(text)))[0])


def _computed(
    spark: SparkSession,
    computed: list[tuple[str, Altered, Column, Column, list[tuple[Any, Any]]]],
    counted: dict[str, int],
) -> list[str]:
    """Where the values computed by Spark, in one query, differ from the server's."""
    if not computed:
        return []
    rows, names = (
        [],
        [f"o{n}" for n in range(len(computed))] + [f"n{n}" for n in range(len(computed))],
    )
    for at in range(len(computed[0][4])):
        row = [_text(pairs[at][0]) for *_, pairs in computed]
        rows.append((*row, *(_text(pairs[at][1]) for *_, pairs in computed)))
    frame = spark.createDataFrame(rows, ", ".join(f"{name} string" for name in names))
    held, checks = [], []
    for n, (_, how, one, other, _) in enumerate(computed):
        old = one.reading.sql.format(text=f"o{n}")
        held.append(f"{old} AS v{n}")
        held.append(f"if(o{n} IS NOT NULL AND ({old}) IS NULL, o{n}, NULL) AS a{n}")
        given = {"aside": f"a{n}", "zone": literal(ZONE)}
        stored = widened(one.reading.type, other.reading.type)
        kind = stored or other.reading.type
        theirs = f"CAST({other.reading.sql.format(text=f'n{n}')} AS {kind})"
        ours = f"CAST({how.value(f'v{n}', **given)} AS {kind})"
        lost = how.lost(f"v{n}", **given)
        checks += [f"CAST({lost} AS boolean) AS l{n}", f"to_json(struct({ours} AS x)) AS x{n}",
                   f"to_json(struct({theirs} AS x)) AS y{n}"]  # fmt: skip
    result = frame.selectExpr("*", *held).selectExpr(*checks).collect()
    found = []
    for at, made in enumerate(result):
        for n, (label, _, _, other, pairs) in enumerate(computed):
            if made[f"l{n}"]:
                counted["unknown"] += 1
                if pairs[at][0] is None and other.nullable:
                    found.append(f"{label}: NULL is not known")
            elif made[f"x{n}"] != made[f"y{n}"]:
                found.append(
                    f"{label}: {pairs[at][0]!r} becomes {made[f'x{n}']}, at the server {pairs[at][1]!r}"
                )
            else:
                counted["computed"] += 1
    return found
