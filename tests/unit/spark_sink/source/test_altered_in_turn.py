"""What several ALTER TABLE statements make of values, in one expression: as one inside the other has them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from spark_sink.batch.compact import steps as projections
from spark_sink.source.altered_in_turn import Turn, in_turn
from spark_sink.source.altered_kinds import ALWAYS, KEPT, Altered
from spark_sink.source.lineage import placed, steps
from spark_sink.source.schemas import Column, SchemaBook, TableVersion, parse_version
from spark_sink.text.quoting import literal
from spark_sink.warehouse.columns import Asked, Conversion, Traced, converted, traced
from spark_sink.warehouse.identity import source_sql
from spark_sink.warehouse.shape import Shape
from tests.properties.examples import examples
from tests.unit.spark_sink.conftest import spark
from tests.unit.spark_sink.history import Image, schema
from wire.table_version import VersionKey

__all__ = ["spark"]

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
NAME = ("shop", "t")
ONLY = Asked(newest=lambda _: 1, is_only=lambda _: True)
LOSSY = {
    "int": (("bigint", "int"), "bigint"),
    "decimal": (("decimal(10,2)", "decimal(6,1)"), "decimal(10,2)"),
    "text": (("varchar(20)", "varchar(4)", "char(6)"), "string"),
    "clock": (("datetime(6)", "datetime(3)", "date"), "timestamp_ntz"),
    "mixed": (("int", "varchar(9)", "decimal(9,2)", "varchar(5)"), "string"),
}
"""Types that a column takes in turn, and a warehouse type that holds them."""

_NUMBERS = ("0", "1", "-1", "7", "127", "128", "200", "-200", "40000", "2000", "1999", "3000000000")
_WORDS = ("", "a", "b", "a ", " a", "12", "12.5", "-7", "12abc", "a,b", "b,a", "ë", "中", "😀",
          "0123456789abcdef")  # fmt: skip
FAMILIES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("int", "tinyint", "smallint unsigned", "bigint", "bigint unsigned", "decimal(10,2)", "decimal(5,1)",
         "decimal(38,10)", "decimal(6,0) unsigned", "double", "float", "varchar(4)", "varchar(20)", "text",
         "char(3)", "year"),
        (*_NUMBERS, "10.75", "0.5", "-0.4", "99999.95", "18446744073709551615"),
    ),
    (
        ("varchar(20)", "varchar(4)", "char(20)", "char(2)", "text", "tinytext", "varchar(20) latin1",
         "varchar(9) utf8mb3", "enum('a','b')", "enum('b','a','12')", "set('a','b')", "set('b','a','ë')",
         "json"),
        _WORDS,
    ),
    (
        ("date", "datetime", "datetime(3)", "datetime(6)", "varchar(26)", "char(10)", "timestamp"),
        ("2020-01-02", "1999-12-31 23:59:59.999999", "2020-06-01 12:00:00", "2020-06-01 12:00:00.500000",
         "0000-00-00", "1970-01-01 00:00:00"),
    ),
    (
        ("time", "time(3)", "time(6)", "varchar(20)", "varchar(9)"),
        ("00:00:00", "12:34:56", "-838:59:59", "12:34:56.500", "12:34:56.123456"),
    ),
    (
        ("binary(4)", "binary(8)", "varbinary(4)", "varbinary(20)", "tinyblob", "blob"),
        ("", "AA==", "YQ==", "AQIDBAUGBwgJCg==", "/w=="),
    ),
    (("bit(1)", "bit(9)", "bit(12)", "int", "decimal(10,2)"), ("AA==", "AQ==", "AP8=", "12")),
)  # fmt: skip
"""Types that become each other, and texts of which some are values of each."""


@pytest.fixture(autouse=True)
def interpreted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spark compiles no code for expressions that see few rows."""
    if request.node.get_closest_marker("spark") is None:
        yield
        return
    session: SparkSession = request.getfixturevalue("spark")
    wanted = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: session.conf.get(name) for name in wanted}
    for name, text in wanted.items():
        session.conf.set(name, text)
    yield
    for name, value in before.items():
        session.conf.set(name, value or "")


def versions(kinds: Sequence[str], *, column: str = "v") -> list[TableVersion]:
    """A version for each type of a column; a type may be followed by its character set and NOT NULL."""
    return [parse_version(published(kind, number, column)) for number, kind in enumerate(kinds, 1)]


def published(kind: str, number: int, column: str = "v") -> str:
    nullable = not kind.endswith(" NOT NULL")
    words = kind.removesuffix(" NOT NULL").split(" ")
    charsets = {"latin1", "utf8mb3"}
    own = " ".join(word for word in words if word not in charsets)
    charset = next((word for word in words if word in charsets), "utf8mb4")
    more: Image = {"column_type": own, "charset": charset, "nullable": nullable}
    return schema(("id", "int"), (column, own), version=number, more={column: more})


def nested(sql: str, value: str, given: Mapping[str, str]) -> str:
    """An expression in which the value is computed once, one inside the other: what is compared with."""
    found = sql.replace(KEPT, "__value")
    for name, text in given.items():
        found = found.replace(f"{{{name}}}", text)
    return f"element_at(transform(array({value}), __value -> {found}), 1)"


def one_by_one(
    own: str, altered: Sequence[Altered], given: Mapping[str, str]
) -> tuple[str, list[str]]:
    """The value after all statements, and the condition of each that its result is not known."""
    value, lost = own, []
    for how in altered:
        unknown = nested(how.unknown, value, given)
        lost.append("true" if how.is_zoned else f"coalesce({unknown}, true)")
        value = nested(how.sql, value, given)
    return value, lost


def random_kinds(rng: random.Random, family: Sequence[str]) -> list[str]:
    """Types of which not all become each other without a value that is not known."""
    more = (
        rng.choice(family) + (" NOT NULL" if rng.random() < 0.1 else "")
        for _ in range(rng.randrange(1, 9))
    )
    return [rng.choice(family), *more]


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(examples(12)))
def test_a_value_of_each_version_becomes_what_the_statements_make_of_it_one_by_one(
    spark: SparkSession, seed: int
) -> None:
    rng, compared = random.Random(seed), 0
    for family, texts in FAMILIES:
        found = placed(steps(enumerate(versions(random_kinds(rng, family)), 1)))
        present = [one for each in found for name, one in each.present if name == "v"]
        columns = [one for one in present if isinstance(one, Column)]
        rows = spark.createDataFrame([(text,) for text in (*texts, None)], "t string")
        expressions: list[str] = []
        for column in columns:
            if column.altered:
                expressions += both(column, len(expressions))
                compared += any(how.unknown != ALWAYS for how in column.altered)
        if not expressions:
            continue
        for row in rows.selectExpr(*expressions).collect():
            made = list(row)
            assert made[::2] == made[1::2], (seed, [one.mysql_type for one in columns], row)
    assert compared


def both(column: Column, number: int) -> list[str]:
    """The value and the lost statements of a column as `in_turn` has them, and one by one."""
    own = f"({column.reading.sql.format(text='t')})"
    given = {"aside": f"if({own} IS NULL, t, NULL)", "zone": "'UTC'"}
    turns = [
        Turn(how=how, kind=how.kind, number=n, is_known=not how.is_zoned)
        for n, how in enumerate(column.altered)
    ]
    ours = in_turn(own, column.reading.type, turns, **given)
    value, lost = one_by_one(own, column.altered, given)
    numbers = ", ".join(f"if({one}, {n}, NULL)" for n, one in enumerate(lost))
    theirs = (
        f"struct(CAST({value} AS {column.altered[-1].kind}) AS value, "
        f"array_compact(array({numbers})) AS lost)"
    )
    return [
        f"to_json({ours}) AS x{number}",
        f"to_json({theirs}) AS y{number}",
    ]


def brought(kinds: Sequence[str], held: Shape) -> Traced:
    """What follows for the rows of the first version from a batch with rows of the last one."""
    values = [published(kind, number) for number, kind in enumerate(kinds, 1)]
    book = SchemaBook(lambda: values)
    key = VersionKey("shop", *NAME, len(kinds))
    return traced(book, held, [book.versions([key])[key]], ONLY, name=NAME)


def sizes(kinds: Sequence[str], kind: str, columns: int) -> tuple[int, int]:
    """The characters of what brings stored rows, and rows of a batch, from the first version to the last."""
    names = [f"c{number}" for number in range(columns)]
    held = replace(of_type(kind), columns=(("id", "int"), *((name, kind) for name in names)))
    values = [
        schema(("id", "int"), *((name, one) for name in names), version=number)
        for number, one in enumerate(kinds, 1)
    ]
    book = SchemaBook(lambda: values)
    keys = [VersionKey("shop", *NAME, number) for number in (1, len(kinds))]
    found = traced(book, held, list(book.versions(keys).values()), ONLY, name=NAME)
    (first,) = (one for one in found.versions if one.key.version == 1)
    batch = projections(held, first.columns, first.present)
    stored = converted(found, held, held)
    return sum(map(len, stored.values())), sum(len(sql) for each in batch for sql in each)


def of_type(kind: str) -> Shape:
    """A table whose rows are of the first version."""
    return Shape(*NAME, (("id", "int"), ("v", kind)), ("id",), followed=(("shop", *NAME, 1),))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["int", "decimal", "text", "clock", "to int"])
def test_the_rows_of_a_table_become_what_the_statements_make_of_them_one_by_one(
    spark: SparkSession, name: str
) -> None:
    rng, compared = random.Random(name), 0
    kinds, kind = LOSSY["decimal" if name == "to int" else name]
    held = of_type(kind)
    wanted = of_type("int") if name == "to int" else held
    texts: Sequence[str] = FAMILIES[2][1] if kind == "timestamp_ntz" else _NUMBERS
    if kind == "string":
        texts = [text for _, found in FAMILIES for text in found]
    while compared < 3:
        found = brought([rng.choice(kinds) for _ in range(rng.randrange(3, 9))], held)
        if len(found.conversions) < 2:
            continue
        values = " UNION ALL ".join(f"SELECT {literal(one)} AS t" for one in texts)
        rows = spark.sql(
            f"SELECT try_cast(t AS {kind}) AS v, m AS __schema, m % 3 = 0 AS __deleted, "
            "'shop' AS __destination, "
            f"if(try_cast(t AS {kind}) IS NULL, map('v', t), NULL) AS __unrepresentable "
            f"FROM ({values} UNION ALL SELECT NULL) JOIN (SELECT explode(sequence(1, 8)) AS m)"
        )
        ours = converted(found, held, wanted)
        theirs = converted_one_by_one(found.conversions, held, wanted)
        made = rows.selectExpr(f"to_json({ours['v']}) AS x", f"to_json({theirs}) AS y")
        for row in made.collect():
            assert row.x == row.y
        compared += 1


def converted_one_by_one(conversions: Sequence[Conversion], held: Shape, wanted: Shape) -> str:
    """The struct of the column `v` in the rows of a table."""
    before, after = dict(held.columns)["v"], dict(wanted.columns)["v"]
    value, numbers = "`v`", []
    given = {"aside": "try_element_at(__unrepresentable, 'v')", "zone": "'UTC'"}
    for number, one in enumerate(conversions):
        of = f"{source_sql(held, one.source)} AND __schema < {one.below} AND NOT __deleted"
        unknown = "true" if one.how.is_zoned else f"coalesce({one.how.unknown}, true)"
        numbers.append(f"if({of} AND {nested(unknown, value, given)}, {number}, NULL)")
        new = f"CAST({one.how.sql} AS {after})"
        value = nested(new if before != after else f"if({of}, {new}, {KEPT})", value, given)
    return f"struct({value} AS value, array_compact(array({', '.join(numbers)})) AS lost)"


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.parametrize("columns", [1, 20])
def test_each_alteration_adds_to_the_expressions_and_does_not_multiply_them(
    name: str, columns: int
) -> None:
    kinds, kind = LOSSY[name]
    few, more, most = (
        sizes([kinds[n % len(kinds)] for n in range(number)], kind, columns)
        for number in (61, 121, 241)
    )
    for of_60, of_120, of_240 in zip(few, more, most, strict=True):
        assert of_240 - of_120 == pytest.approx(2 * (of_120 - of_60), rel=0.05)
        assert of_240 < columns * 240 * 1000


@pytest.mark.spark
def test_two_hundred_alterations_are_planned_and_each_adds_as_much_to_the_plan(
    spark: SparkSession,
) -> None:
    kinds, kind = LOSSY["text"]
    held = of_type(kind)
    sizes = []
    for number in (51, 101, 201):
        found = brought([kinds[n % len(kinds)] for n in range(number)], held)
        rows = spark.sql(
            "SELECT ' ab cd ef ' AS v, 1 AS __schema, false AS __deleted, 'shop' AS __destination, "
            "CAST(NULL AS map<string,string>) AS __unrepresentable"
        )
        altered = rows.selectExpr(f"{converted(found, held, held)['v']} AS a").selectExpr("a.*")
        ((value, lost),) = altered.collect()
        assert (value, lost) == (" ab", [])
        sizes.append(len(altered._jdf.queryExecution().optimizedPlan().toJSON()))
    assert sizes[2] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[0]), rel=0.1)
