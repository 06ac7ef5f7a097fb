"""The type of a column as its server prints it, where it is known."""

from __future__ import annotations

import json
from dataclasses import replace

from connectors.mysql.binlog.table_map import TableMap
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.types.registry import FieldType, MappedColumn
from spark_sink.source.schemas import parse_version
from tables.history.definition_json import Definitions, table_json
from tests.unit.app.worker.pipeline.gather.test_null_check import DEFINED, PLAIN, bare, met
from tests.unit.tables.rules.test_table_version import VERSION


def test_a_definition_gives_the_column_types_that_rows_do_not_show() -> None:
    catalog = Catalog(Server(version=(8, 0, 36)))
    catalog.apply(
        "CREATE TABLE shop.t (a int(5) NOT NULL PRIMARY KEY, b int NOT NULL, c int(3) UNSIGNED ZEROFILL)",
        Session(),
    )
    columns = (*PLAIN.columns[:2], replace(PLAIN.columns[2], unsigned=True))
    for table_map in (replace(PLAIN, columns=columns), bare(PLAIN)):
        found = met(table_map, catalog["shop", "t"]).definition.columns
        assert [column.type for column in found] == ["int", "int", "int unsigned"]
        shown = [column.column_type for column in found]
        assert shown == ["int", "int", "int(3) unsigned zerofill"]


def test_what_only_rows_have_shown_has_no_column_type() -> None:
    without_history = met(PLAIN, None)
    taken_from_rows = met(PLAIN, DEFINED)
    # Also once the journal has been read again.
    read_again = met(PLAIN, Definitions().table(table_json(DEFINED)))
    for found in (without_history, taken_from_rows, read_again):
        assert [one.column_type for one in found.definition.columns] == [None] * 3


def test_a_column_that_the_server_does_not_list_has_no_column_type() -> None:
    catalog = Catalog(Server(version=(10, 11, 2), mariadb=True))
    catalog.apply("CREATE TABLE shop.t (a int NOT NULL) WITH SYSTEM VERSIONING", Session())
    moment = MappedColumn(type=FieldType.TIMESTAMP2, metadata=6, nullable=False, name="row_start")
    columns = (PLAIN.columns[0], moment, replace(moment, name="row_end"))
    table_map = TableMap(table_id=1, database="shop", table="t", columns=columns, primary_key=None)
    found = met(table_map, catalog["shop", "t"], server=catalog.server).definition
    assert [one.column_type for one in found.columns] == ["int(11)", None, None]


def test_the_sink_reads_values_by_their_type_alone() -> None:
    (column,) = VERSION.definition.columns
    addresses = replace(column, type="binary(16)", column_type="uuid")
    definition = replace(VERSION.definition, columns=(addresses,))
    (read,) = parse_version(json.dumps(replace(VERSION, definition=definition).to_json())).columns
    assert read.reading.type == "binary"
