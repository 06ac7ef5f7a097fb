"""Rows and records in other formats are compared by the values that the format has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import orjson
import pytest

from app.audit.topics.topics import Claims
from app.operator.validation.errors import NotComparable
from app.operator.validation.folded_topic import (
    PARTIAL,
    VERSIONLESS,
    FoldedTopic,
    SelectedRow,
    Unequal,
)
from app.operator.validation.present_images import (
    PresentImages,
    TableForm,
    names_its_table,
    own_image,
    stored,
)
from app.operator.validation.topic_pass import differing
from app.worker.pipeline.formats.avro import Avro, AvroForm
from app.worker.pipeline.formats.canal import CANAL
from app.worker.pipeline.formats.maxwell import MAXWELL
from app.worker.pipeline.formats.protocol import RecordForm
from app.worker.pipeline.formats.shaped import ShapedForm, version_of
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from connectors.store.registry import MemoryRegistry
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Route, Routes
from tests.unit.app.operator.validation.records import (
    NAME,
    column,
    definition,
    key,
    record,
    version,
)
from tests.unit.app.worker.pipeline.runs import RULES
from wire.table_version import Definition

LOGICAL, REAL = ("trade", "orders"), NAME
COLUMNS = definition(
    column("id"), column("Price", "decimal(30,2)"), column("doc", "json"), column("r aw", "blob")
)
ROW = {"id": 7, "Price": "12345678901234567890.50", "doc": '{"a":[1,2.50]}', "r aw": "AP8="}
WRITTEN = {
    "canal": {"doc": '{"a":[1,2.50]}', "id": "7", "price": "12345678901234567890.50", "r aw": "\x00ÿ"},
    "maxwell": {"doc": {"a": [1, 2.5]}, "id": 7, "price": 1.2345678901234567e19, "r aw": "AP8="},
    "avro": {"doc": '{"a":[1,2.50]}', "id": 7, "price": "12345678901234567890.50", "r aw": "AP8="},
}  # fmt: skip
SHARD = b'{"__shard":["shop","shop","t"],"id":%d}'


class Writer:
    """Writes records in a format as a worker does, and reads them as a validation does."""

    def __init__(self, name: str) -> None:
        self.name, self.registry = name, MemoryRegistry()
        self.form: RecordForm = (
            AvroForm(RULES, self.registry)
            if name == "avro"
            else ShapedForm(CANAL if name == "canal" else MAXWELL)
        )

    def record(
        self,
        image: Mapping[str, Any] | None,
        *,
        at: int,
        op: str = "u",
        of: Definition = COLUMNS,
        schema: int | None = 1,
        destination: str = "shop",
        named: TableName = LOGICAL,
        by_shard: bool = False,
        **more: Any,
    ) -> StoredRecord:
        """A record of row 7; ``named``: the table's name in formats that have one alone."""
        value = orjson.loads(record(7, 0, at=at, op=op, schema=schema or 0).value)
        value |= {
            "before": image if op != "r" else None,
            "after": image if op != "d" else None,
            **more,
        }
        value |= {"ts_ms": 0, "transaction": {"id": "x", "total_order": 1}}
        value["source"] |= {
            "version": "", "connector": "mysql", "server_id": 1, "gtid": None, "file": "b", "pos": 4, "row": 0,
            "thread": None, "logical_db": named[0], "logical_table": named[1], "ts_ms": 0, "snapshot": "false",
            "wire": 1,
        }  # fmt: skip
        headers = [("format", self.name.encode()), ("destination", destination.encode())]
        headers += [("epoch", b"1"), ("seq", b"%d" % (at + 1))]
        headers += [] if schema is None else [("schema", b"%d" % schema)]
        own = b"" if op == "t" else SHARD % 7 if by_shard else key(7)
        return StoredRecord(own, self._value(value, of, named), at, tuple(headers))

    def _value(self, value: dict[str, Any], of: Definition, named: TableName) -> bytes:
        if self.name == "avro":
            avro = Avro(self.registry, RULES, connector="mysql", epoch=1)
            if value["op"] == "t":
                route = Route(table=REAL, logical=LOGICAL, topic="aq.trade", partitions=1)
                return avro.truncation(route)(value)
            return avro.rows(version_of(NAME, of))(value)
        shape = CANAL if self.name == "canal" else MAXWELL
        found = (
            shape.truncation(value, named)
            if value["op"] == "t"
            else shape.rows(version_of(NAME, of))(value)
        )
        found |= {one: value[one] for one in ("claim_check", "left_out") if one in value}
        return orjson.dumps(found)


FORMATS = pytest.mark.parametrize("writer", ["canal", "maxwell", "avro"], indirect=True)
SHAPES = pytest.mark.parametrize("writer", ["canal", "maxwell"], indirect=True)


@pytest.fixture
def writer(request: pytest.FixtureRequest) -> Writer:
    return Writer(request.param)


Make = Callable[..., FoldedTopic]


@pytest.fixture
def topic(writer: Writer) -> Iterator[Make]:
    made = list[FoldedTopic]()

    def make(*versions: Definition, sharded: bool = False, name: str = writer.name) -> FoldedTopic:
        known = {(*NAME, n): version(one) for n, one in enumerate(versions or (COLUMNS,), 1)}
        now = (versions or (COLUMNS,))[-1]
        written = None if name == "debezium" else writer.form.written(NAME, now)
        form = TableForm(format=name, written=written, logical=LOGICAL, names_real=sharded)
        images = {REAL: PresentImages(NAME, known, now, form)}
        made.append(FoldedTopic("shop", images, Claims(None, Counter()), lambda _: writer.form))
        return made[-1]

    yield make
    for one in made:
        one.close()


def expected(writer: Writer, image: Mapping[str, Any], of: Definition = COLUMNS) -> SelectedRow:
    made = own_image(writer.form.written(NAME, of)(image))
    return SelectedRow(key(7), stored(made), ("7",))


@FORMATS
def test_an_image_that_is_read_back_is_written_as_it_was(writer: Writer) -> None:
    def value(image: Mapping[str, Any]) -> bytes:
        return writer.record(image, at=1, op="c").value or b""

    first = value(ROW)
    read = writer.form.read(key(7), first, {}).image
    restored = writer.form.restored(COLUMNS)
    assert read is not None
    assert restored is not None
    image = orjson.loads(orjson.dumps(restored(read)))
    assert {**image, "doc": ROW["doc"]} == ROW
    assert value(image) == first


def compared(folded: FoldedTopic, *rows: SelectedRow) -> list[Unequal]:
    folded.begin_look()
    folded.select(rows)
    return list(folded.compare(NAME, 1))


@FORMATS
def test_a_row_has_the_values_of_its_format_with_all_digits(writer: Writer) -> None:
    row = expected(writer, ROW)
    assert orjson.loads(row.image) == WRITTEN[writer.name]
    if writer.name == "maxwell":
        assert b'"price":12345678901234567890.50' in row.image
        assert b"[1,2.50]" in row.image


@FORMATS
@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("Price", "12345678901234567890.51"),
        ("doc", '{"a":[1,2.51]}'),
        ("doc", '{"a":["1",2.50]}'),
        ("r aw", "AP4="),
        ("r aw", None),
    ],
)
def test_a_row_that_differs_is_found_with_its_column(
    writer: Writer, topic: Make, column: str, other: Any
) -> None:
    folded, one = topic(), writer.record(ROW, at=0, op="r")
    folded.take(0, one)
    assert compared(folded, expected(writer, ROW)) == []
    (found,) = compared(folded, row := expected(writer, {**ROW, column: other}))
    assert (found.is_missing, found.doubt, found.at) == (False, None, (0, 0))
    image = folded.image_of(NAME, one)
    assert image is not None
    assert differing(stored(image), row.image) == (column.lower(),)


@FORMATS
def test_the_last_record_of_a_key_counts_and_a_deleted_row_is_missing(
    writer: Writer, topic: Make
) -> None:
    folded, new = topic(), {**ROW, "r aw": None}
    folded.take(0, writer.record(new, at=5))
    folded.take(0, writer.record(ROW, at=3))
    assert compared(folded, expected(writer, new)) == []
    folded.take(0, writer.record(new, at=6, op="d"))
    (found,) = compared(folded, expected(writer, new))
    assert found.is_missing
    folded.take(0, StoredRecord(key(7), b"", 7, (("format", writer.name.encode()),)))
    assert [one.is_missing for one in compared(folded, expected(writer, new))] == [True]


@FORMATS
def test_records_of_others_are_ignored(writer: Writer, topic: Make) -> None:
    folded = topic()
    folded.take(0, writer.record(ROW, at=0, destination="other"))
    if writer.name != "avro":
        folded.take(0, writer.record(ROW, at=1, named=("trade", "others")))
    assert list(folded.unseen(NAME, 1)) == []
    nameless = writer.record(ROW, at=2)
    nameless = StoredRecord(nameless.key, nameless.value, 2, nameless.headers[:1])
    with pytest.raises(NotComparable, match="does not name its destination"):
        folded.take(0, nameless)


@FORMATS
def test_a_key_names_the_real_table_and_so_does_its_truncation(writer: Writer, topic: Make) -> None:
    folded = topic(sharded=True)
    folded.take(0, writer.record(ROW, at=0, by_shard=True))
    if writer.name != "avro":
        with pytest.raises(NotComparable, match=r"trade\.orders .* does not name its real table"):
            folded.take(0, writer.record(ROW, at=1))
    assert [key for key, *_ in folded.unseen(NAME, 1)] == [SHARD % 7]
    folded.take(0, writer.record(None, at=2, op="t", named=REAL))
    assert list(folded.unseen(NAME, 1)) == []
    assert folded.is_emptied(NAME)


@FORMATS
def test_a_truncation_empties_the_table_of_its_name(writer: Writer, topic: Make) -> None:
    folded = topic()
    folded.take(0, writer.record(ROW, at=0))
    if writer.name != "avro":
        folded.take(0, writer.record(None, at=1, op="t", named=("trade", "others")))
        # The real name of a table whose keys do not have it is that of another one.
        folded.take(0, writer.record(None, at=2, op="t", named=REAL))
        assert len(list(folded.unseen(NAME, 1))) == 1
    folded.take(0, writer.record(None, at=3, op="t", named=LOGICAL))
    assert list(folded.unseen(NAME, 1)) == []


@FORMATS
def test_what_a_record_does_not_determine_is_not_judged(writer: Writer, topic: Make) -> None:
    folded, row = topic(), expected(writer, {**ROW, "r aw": None})
    claim = {"claim_check": {"location": "x"}} if writer.name != "avro" else {"claim_check": "x"}
    left = {"left_out": {"data": 1}} if writer.name != "avro" else {"left_out": "x"}
    part = {name: value for name, value in ROW.items() if name != "r aw"}
    for at, (image, more, why) in enumerate(
        (
            (part, {"absent": ["r aw"]}, PARTIAL),
            (
                ROW,
                claim,
                "rows whose images are in the claim store, which are not read in this format",
            ),
            (ROW, left, "rows without their images"),
        )
    ):
        folded.take(0, writer.record(image, at=at, **more))
        assert [one.doubt for one in compared(folded, row)] == [why]


@FORMATS
def test_a_record_in_another_format_than_the_tables_now_is_not_judged(
    writer: Writer, topic: Make
) -> None:
    for name, one in (("debezium", writer.record(ROW, at=0)), (writer.name, record(7, 1, at=0))):
        folded = topic(name=name)
        folded.take(0, one)
        (found,) = compared(folded, SelectedRow(key(7), b"{}", ("7",)))
        other = writer.name if name == "debezium" else "debezium"
        assert (
            found.doubt
            == f"rows whose last record is in another format than the table's now: {other}"
        )


@FORMATS
def test_a_column_that_was_added_later_has_its_initial_value_in_the_format(
    writer: Writer, topic: Make
) -> None:
    more = column("More", "decimal(6,2)", id="More@1", initial={"value": "1.50"})
    now = definition(*COLUMNS.columns, more)
    folded = topic(COLUMNS, now)
    folded.take(0, writer.record(ROW, at=0))
    assert compared(folded, expected(writer, {**ROW, "More": "1.50"}, now)) == []
    (found,) = compared(folded, expected(writer, {**ROW, "More": "1.51"}, now))
    assert found.doubt is None


@SHAPES
def test_a_record_without_a_version_is_judged_only_if_its_table_has_one(
    writer: Writer, topic: Make
) -> None:
    now = definition(*COLUMNS.columns, column("more"))
    for versions, doubt in (((COLUMNS,), None), ((COLUMNS, now), VERSIONLESS)):
        folded = topic(*versions)
        folded.take(0, writer.record(ROW, at=0, schema=None))
        (found,) = compared(folded, expected(writer, {**ROW, "r aw": None}, COLUMNS))
        assert found.doubt == doubt
    with pytest.raises(LookupError):
        topic().take(0, writer.record(ROW, at=0, schema=2))


def test_a_schema_that_the_registry_does_not_have_is_no_ground_to_compare() -> None:
    writer = Writer("avro")
    one = writer.record(ROW, at=0)
    writer.registry.schemas.clear()
    with pytest.raises(ValueError, match="no schema with the id 1"):
        writer.form.read(one.key, one.value, {})
    folded = FoldedTopic("shop", {}, Claims(None, Counter()), lambda _: writer.form)
    with closing(folded), pytest.raises(NotComparable, match="no schema with the id 1"):
        folded.take(0, one)


def routes(rule: str) -> list[Route]:
    entry = f"{{from: ['shop.t[0-9]'], topic: trade, {rule}}}"
    made = Routes(
        prefix="aq", destination="shop", mapping=from_yaml(f"tables: {{trade.orders: {entry}}}")
    )
    found = [made.of(("shop", f"t{n}")) for n in (1, 2)]
    return [one for one in found if one is not None]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("format: canal, shard_in_key: never", False),
        ("format: maxwell, shard_in_key: never", False),
        ("format: avro, shard_in_key: never", True),
        ("format: canal, shard_in_key: always", True),
        ("shard_in_key: never", True),
    ],
)
def test_whether_records_show_which_table_they_are_of(rule: str, names: bool) -> None:
    one, other = routes(rule)
    assert names_its_table(one, [other]) == names
    assert names_its_table(one, [])
