"""What every log of recent changes does alike: the one in memory, and Delta's and Iceberg's on a real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spark_sink.source.envelope import FIELDS
from spark_sink.views.recent.follower import stored
from spark_sink.warehouse.coverage import Cut
from spark_sink.warehouse.opening import open_warehouse
from spark_sink.warehouse.protocol import VersionGone, Warehouse
from tests.harness.memory_warehouse import MemoryWarehouse
from tests.unit.spark_sink.batch.drops_and_renames.statements import drop
from tests.unit.spark_sink.conftest import FORMATS_LONG, spark
from tests.unit.spark_sink.conftest import Warehouse as Records
from tests.unit.spark_sink.history import Change, schema

__all__ = ["spark"]
NAME = ("shop", "t")
AT = ("aq.shop.t", 0)
SCHEMAS = "aq.__schemas"
DDL = "aq.__ddl."
DROP = drop(9, "t")
FIRST = schema(("id", "int"))
SECOND = schema(("id", "int"), ("v", "int"), version=2)

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@dataclass(frozen=True, slots=True)
class Case:
    """A warehouse, whatever form its rows have."""

    warehouse: Warehouse[Any]
    records: Records | None = None

    def rows(
        self,
        *offsets: int,
        versions: tuple[str, ...] = (),
        statements: tuple[str, ...] = (),
        table: str = "t",
    ) -> Any:
        """Rows of records at these offsets, and of these values of the schemas topic and a DDL topic."""
        if self.records is None:
            empty = dict.fromkeys(FIELDS)
            place = {"topic": AT[0], "partition": AT[1], "database": "shop", "table": table}
            made = [
                {"kind": "record", "text": None, **empty, **place, "offset": one} for one in offsets
            ]
            made += [{"kind": "statement", "text": text, **empty} for text in statements]
            return [*made, *({"kind": "version", "text": text, **empty} for text in versions)]
        values = [
            (AT[0], one, Change(op="c", seq=one + 1, table=table, after={"id": one}).value())
            for one in offsets
        ]
        values += [(SCHEMAS, at, text) for at, text in enumerate(versions)]
        values += [(f"{DDL}shop", at, text) for at, text in enumerate(statements)]
        kafka = [
            {"topic": topic, "partition": 0, "offset": at, "key": None, "value": value}
            for topic, at, value in values
        ]
        return stored(self.records.frame(kafka), SCHEMAS, DDL)

    def found(self, name: tuple[str, str] = NAME) -> tuple[list[int], list[str]]:
        """The offsets of the stored records of a table, and the stored versions of shop.t."""
        recent = self.warehouse.recent.newest()
        assert recent is not None
        rows = recent.records
        rows = rows if self.records is None else [row.asDict() for row in rows.collect()]
        assert all(set(row) == set(FIELDS) for row in rows)
        rows = [row for row in rows if (row["database"], row["table"]) == name]
        versions = recent.versions([NAME])
        return sorted(row["offset"] for row in rows), sorted(map(_version, versions))


def _version(text: str) -> str:
    return f"v{json.loads(text)['version']}"


def cut(since: int, until: int) -> Cut:
    return Cut(since={AT: since}, until={AT: until}, at_ms=until)


@pytest.fixture(params=["memory", *FORMATS_LONG])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    if request.param == "memory":
        yield Case(MemoryWarehouse())
        return
    session = request.getfixturevalue("spark")
    held = open_warehouse(session, str(tmp_path), table_format=request.param)
    yield Case(held, Records(session, tmp_path / "other"))


def test_records_and_versions_are_added_until_a_new_beginning_replaces_them(case: Case) -> None:
    log = case.warehouse.recent
    assert log.newest() is None
    log.begin(case.rows(3, 4, versions=(FIRST,)), cut(3, 5))
    assert case.found() == ([3, 4], ["v1"])
    assert case.found(("shop", "other")) == ([], ["v1"])
    log.add(case.rows(5, versions=(SECOND,)), cut(3, 6))
    assert case.found() == ([3, 4, 5], ["v1", "v2"])
    log.add(case.rows(6, table="other"), cut(3, 7))
    assert case.found() == ([3, 4, 5], ["v1", "v2"])
    assert case.found(("shop", "other")) == ([6], ["v1", "v2"])
    newest = log.newest()
    assert newest is not None
    assert newest.cut == cut(3, 7)
    log.begin(case.rows(9, versions=(FIRST,)), cut(9, 10))
    assert case.found() == ([9], ["v1"])


def test_a_reader_gets_the_versions_of_the_source_tables_that_it_names_and_no_other(
    case: Case,
) -> None:
    log = case.warehouse.recent
    odd = "it's `a\\b` ${x} ж"
    elsewhere = schema(("id", "int"), destination="other")
    others = [schema(("id", "int"), table=name) for name in ("T", odd)]
    other_database = json.dumps({**json.loads(FIRST), "database": "shop2"})
    log.begin(case.rows(3, versions=(FIRST, elsewhere, *others, other_database)), cut(3, 4))
    log.add(case.rows(4, versions=(SECOND,)), cut(3, 5))
    recent = log.newest()
    assert recent is not None
    assert sorted(recent.versions([NAME])) == sorted([FIRST, SECOND, elsewhere])
    assert sorted(recent.versions({("shop", odd), ("shop2", "t")})) == sorted(
        [others[1], other_database]
    )
    assert recent.versions([("shop", "none")]) == recent.versions(()) == []


def test_earlier_commits_are_read_as_they_were_with_markers_and_what_was_whole(case: Case) -> None:
    log = case.warehouse.recent
    assert log.version() is None
    end = '{"status":"END","id":"u:1","part":1,"last":false}'
    log.begin(case.rows(3, 4, versions=(FIRST,)), cut(3, 5), markers=[end])
    first = log.version()
    assert first is not None
    whole = replace(cut(4, 6), whole={AT: 5})
    log.tidy(whole)
    log.add(case.rows(5), whole)
    newest, earlier = log.newest(), log.at(first)
    assert newest is not None
    assert (newest.cut.whole, earlier.cut.whole) == ({AT: 5}, None)
    assert [one.text for one in (*newest.markers, *earlier.markers)] == [end, end]
    assert case.found()[0][-2:] == [4, 5]
    count = len(earlier.records) if case.records is None else earlier.records.count()
    assert count == 2
    with pytest.raises(VersionGone):
        log.at(first + 99)


def test_tidying_removes_merged_records_and_no_version_beside_additions(case: Case) -> None:
    log = case.warehouse.recent
    log.begin(case.rows(0, 1, 2, versions=(FIRST,)), cut(0, 3))
    held = log.newest()
    log.add(case.rows(3, versions=(SECOND,), statements=(DROP,)), cut(2, 4))
    assert case.found() == ([0, 1, 2, 3], ["v1", "v2"])
    log.tidy(cut(2, 4))
    assert case.found()[0][-2:] == [2, 3], "some that are merged may stay for now"
    log.add(case.rows(4), cut(3, 5))
    log.tidy(cut(3, 4))
    assert case.found()[0][-2:] == [3, 4]
    log.add(case.rows(5), cut(4, 6))
    log.tidy(cut(4, 5))
    assert case.found() == ([4, 5], ["v1", "v2"])
    newest = log.newest()
    assert newest is not None
    assert (newest.cut, newest.statements) == (cut(4, 6), [DROP])
    log.remove_unused()
    assert case.found() == ([4, 5], ["v1", "v2"])
    # A reader keeps what it has begun to read.
    assert held is not None
    assert held.cut == cut(0, 3)
    count = len(held.records) if case.records is None else held.records.count()
    assert count == 3
