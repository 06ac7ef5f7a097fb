"""Table versions: read exactly, or a named error."""

import json
from collections.abc import Collection
from typing import Any

import pytest

from spark_sink.errors import (
    ColumnClash,
    KeyChanged,
    MalformedRecord,
    ReservedName,
    TypeConflict,
    UnknownSchema,
    UnsupportedWire,
)
from spark_sink.source.schemas import SchemaBook, parse_version, topics_of
from spark_sink.warehouse.common.statements import made_property, set_sql
from spark_sink.warehouse.delta.ddl import alter_sql, create_sql
from spark_sink.warehouse.shape import Shape, shaped
from tests.unit.spark_sink.history import schema
from wire.table_version import VersionKey

KEY: dict[str, Any] = {"destination": "shop", "database": "shop", "table": "t", "version": 1}


def value(*columns: tuple[str, str], version: int = 1, key: tuple[str, ...] = ("id",)) -> str:
    body: dict[str, Any] = {
        "destination": "shop",
        "database": "shop",
        "table": "t",
        "version": version,
        "columns": [{"name": n, "type": t, "nullable": True} for n, t in columns],
        "primary_key": list(key),
        "wire": 1,
    }
    return json.dumps(body)


def shape(*values: str, held: Shape | None = None) -> Shape:
    return shaped(held, [parse_version(v) for v in values], name=("shop", "t"))


def test_a_reader_gets_the_versions_of_the_tables_that_it_asks_for_once_and_of_no_other() -> None:
    asked: list[set[tuple[str, str]]] = []
    held = {f"t{number}": schema(("id", "int"), table=f"t{number}") for number in range(5000)}

    def read(names: Collection[tuple[str, str]]) -> list[str]:
        asked.append({*names})
        return [held[table] for _, table in names if table in held]

    book = SchemaBook(tuple, read_of=read, expected=[("shop", "t7"), ("shop", "t6")])
    key, other = (VersionKey("shop", "shop", table, 1) for table in ("t7", "t5"))
    assert book.versions([key, other])[key].primary_key == ("id",)
    # It is expected to be asked for, so it was read with them.
    assert book.named(("shop", "t6")) == [("shop", "shop", "t6")]
    assert book.named(("shop", "t7")) == [("shop", "shop", "t7")]
    # A table that was renamed has earlier versions under its other name.
    assert [one.key.table for one in book.earlier(("shop", "shop", "t8"), None)] == ["t8"]
    assert book.home(key) == ""
    assert book.named(("shop", "none")) == []
    with pytest.raises(UnknownSchema):
        book.versions([VersionKey("shop", "shop", "t7", 2)])
    assert asked == [
        {("shop", "t5"), ("shop", "t6"), ("shop", "t7")},
        {("shop", "t8")},
        {("shop", "none")},
    ]


def test_a_version_that_is_not_known_yet_is_read_and_then_kept() -> None:
    reads, held = list[int](), [value(("id", "int"))]

    def read() -> list[str]:
        reads.append(1)
        return held

    book = SchemaBook(read)
    key = VersionKey("shop", "shop", "t", 1)
    assert book.versions([key])[key].primary_key == ("id",)
    book.versions([key])
    assert len(reads) == 1
    with pytest.raises(UnknownSchema, match=r"shop\.t version 2 of shop"):
        book.versions([VersionKey("shop", "shop", "t", 2)])
    # Once the topic has it, it is read.
    held.append(value(("id", "int"), version=2))
    later = VersionKey("shop", "shop", "t", 2)
    assert book.versions([later])[later].primary_key == ("id",)


def test_the_topic_is_read_again_only_once_it_has_changed() -> None:
    reads, held, state = list[int](), [value(("id", "int"))], [1]

    def read() -> list[str]:
        reads.append(state[0])
        return held

    book = SchemaBook(read, state=lambda: state[0])
    later = VersionKey("shop", "shop", "t", 2)
    for _ in range(2):
        with pytest.raises(UnknownSchema):
            book.versions([later])
    assert reads == [1]
    held.append(value(("id", "int"), version=2))
    state[0] = 2
    assert book.versions([later])[later].primary_key == ("id",)
    assert reads == [1, 2]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", MalformedRecord),
        ("{}", MalformedRecord),
        (value(("id", "int")).replace('"wire": 1', '"wire": 2'), UnsupportedWire),
        (value(("id", "int"), ("ID", "int")), ColumnClash),
        (value(("id", "int"), ("__seq", "int")), ReservedName),
        (value(("x", "int")), MalformedRecord),
        (value(("id", "int")).replace('"nullable": true', '"initial": 5'), MalformedRecord),
        (value(("id", "int")).replace('"type": "int"', '"type": 5'), MalformedRecord),
        (value(("id", "int")).replace('"name": "id"', '"name": 5'), MalformedRecord),
        # What else a later version of the contract has is not known.
        (json.dumps(KEY | {"wire": 2}), UnsupportedWire),
        (json.dumps(KEY | {"wire": "2"}), UnsupportedWire),
    ],
)
def test_a_version_that_cannot_be_used_is_a_named_error(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_version(text)


def test_columns_are_added_kept_and_widened_over_versions() -> None:
    first = value(("id", "int"), ("gone", "text"))
    second = value(("id", "bigint"), ("New", "date"), version=2)
    assert shape(second, first).columns == (("id", "bigint"), ("gone", "string"), ("New", "date"))
    held = shape(first)
    assert shape(second, held=held) == shape(first, second)
    assert shape(first, held=shape(first, second)) == shape(first, second)


def test_a_column_whose_name_changes_only_in_case_stays_one_column() -> None:
    both = shape(
        value(("id", "int"), ("Name", "text")), value(("ID", "int"), ("name", "text"), key=("ID",))
    )
    assert both.columns == (("id", "int"), ("Name", "string"))


def test_a_type_that_cannot_follow_names_table_column_and_types() -> None:
    with pytest.raises(TypeConflict, match=r"shop\.t\.a is int and would need to hold string"):
        shape(value(("id", "int"), ("a", "int")), value(("id", "int"), ("a", "text"), version=2))


def test_another_primary_key_is_a_named_error_but_another_order_is_not() -> None:
    columns = (("a", "int"), ("b", "int"))
    ab, ba = value(*columns, key=("a", "b")), value(*columns, version=2, key=("b", "a"))
    assert shape(ab, ba).key == ("a", "b")
    with pytest.raises(KeyChanged, match=r"shop\.t"):
        shape(ab, value(*columns, version=2, key=("a",)))
    with pytest.raises(KeyChanged):
        shape(ab, value(*columns, version=2, key=()))


def test_the_statements_quote_names_and_map_columns_only_where_needed() -> None:
    plain, odd = shape(value(("id", "int"))), shape(value(("id", "int"), ("a `b.c", "datetime")))
    assert "columnMapping" not in create_sql("/w/t", plain)
    assert "'delta.columnMapping.mode' = 'name'" in create_sql("/w/t", odd)
    mapped = {
        "delta.columnMapping.mode": "name",
        "delta.feature.timestampNtz": "supported",
    }
    assert alter_sql("/w/t", plain, odd) == [
        set_sql("delta.`/w/t`", mapped | made_property(plain, coming=odd)),
        "ALTER TABLE delta.`/w/t` ADD COLUMNS (`a ``b.c` timestamp_ntz)",
        set_sql("delta.`/w/t`", made_property(odd)),
    ]


def test_widening_is_switched_on_only_when_a_type_changes() -> None:
    held, wanted = shape(value(("id", "int"))), shape(value(("id", "bigint")))
    assert alter_sql("/w/t", held, wanted) == [
        set_sql(
            "delta.`/w/t`",
            {"delta.enableTypeWidening": "true"} | made_property(held, coming=wanted),
        ),
        "ALTER TABLE delta.`/w/t` ALTER COLUMN `id` TYPE bigint",
        set_sql("delta.`/w/t`", made_property(wanted)),
    ]


def test_a_tables_sources_are_those_that_have_published_its_columns_by_now() -> None:
    columns = ("id", "int")
    topic = [schema(columns), schema(columns, version=2), schema(columns, destination="crm")]
    book = SchemaBook(lambda: topic)
    assert book.sources(("shop", "t")) == {"shop", "crm"}
    topic.append(schema(columns, table="other", destination="hr"))
    assert book.sources(("shop", "other")) == {"hr"}
    # A table of another name at its sources may be filled by any of them.
    assert book.sources(("shop", "logical")) == {"shop", "crm", "hr"}


DAMAGED = (
    json.dumps(KEY),
    json.dumps(KEY | {"wire": 1, "columns": [5], "primary_key": []}),
    json.dumps(KEY | {"wire": 1, "columns": [], "primary_key": ["id"], "logical": 7, "topic": 7}),
)


@pytest.mark.parametrize("text", DAMAGED)
def test_a_version_that_cannot_be_read_counts_as_lost_until_its_record_is_restored(
    text: str,
) -> None:
    whole = value(("id", "int"))
    held, state = [text, value(("id", "int"), version=2)], [1]
    book = SchemaBook(lambda: held, state=lambda: state[0])
    key, other = (VersionKey("shop", "shop", "t", number) for number in (1, 2))
    read = list(book.versions([other]).values())
    assert book.earlier(("shop", "shop", "t"), None) == read
    with pytest.raises(
        UnknownSchema, match=r"shop\.t version 1 of shop, whose record cannot be read \(schemas"
    ) as fault:
        book.versions([key, other])
    assert fault.value.advice.startswith("Give the table another comment at the source")
    assert fault.value.advice.endswith("python -m spark_sink reload shop.t --skip-unusable")
    assert book.lacking([key, other]) == {key}
    assert book.logical(key) == ("shop", "t")
    # It may have rows in any topic.
    assert ("shop", ("shop", "t"), ("shop", "t")) in book.of_topic("aq.shop.any")
    # The topic is written again.
    held[0], state[0] = whole, 2
    assert book.versions([key])[key].primary_key == ("id",)
    assert (book.lacking([key]), len(book.earlier(("shop", "shop", "t"), None))) == (set(), 2)


def test_a_record_of_another_program_is_no_version() -> None:
    # As a reader of recent changes gets them, whose records have no keys.
    foreign = ["{", "7", "{}", json.dumps({"database": "shop", "table": "t"})]
    book = SchemaBook(tuple, read_of=lambda _: [*foreign, value(("id", "int"))])
    key = VersionKey("shop", "shop", "t", 1)
    assert book.versions([key])[key].primary_key == ("id",)
    assert book.named(("shop", "t")) == [("shop", "shop", "t")]
    assert topics_of(foreign, {("shop", "t")}) == set()
    assert SchemaBook(lambda: foreign).sources(("shop", "t")) == set()


def test_a_version_of_a_later_contract_says_what_ends_the_wait() -> None:
    later = json.dumps(KEY | {"wire": 2, "columns": {}, "logical": {}})
    book = SchemaBook(lambda: [later])
    key = VersionKey("shop", "shop", "t", 1)
    for _ in range(2):
        with pytest.raises(UnsupportedWire, match=r"shop\.t version 1 of shop has wire 2") as fault:
            book.versions([key])
        assert fault.value.advice.startswith("Use a sink of the worker's version, then run: python")
    assert book.lacking([key]) == set()
