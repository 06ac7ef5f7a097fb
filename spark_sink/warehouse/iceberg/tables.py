"""The warehouse's tables as Iceberg tables, named by folders: `<database>.<table>` in the warehouse's catalog.

Invariant: this module creates, widens, fills and reads tables, and depends on no batch, Kafka or clock.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_sink.errors import ForeignTable, UnknownTable
from spark_sink.source.positions import Offsets
from spark_sink.spark.files import Files
from spark_sink.spark.jobs import temporary_view
from spark_sink.warehouse.common.conflicts import gone_by_name
from spark_sink.warehouse.common.merge_range import LARGE, key_bounds, range_sql
from spark_sink.warehouse.common.statements import (
    CUT_PROPERTY,
    comment_sql,
    cut_text,
    merge_sql,
    name_of,
    own_rows,
    parse_cut,
    renaming_sql,
    shape_of,
    truncate_sql,
    without_foreign,
)
from spark_sink.warehouse.iceberg.catalog import (
    COMMENT,
    FOREIGN_ADVICE,
    GONE,
    Catalog,
    IcebergTable,
    Place,
    again_on_conflict,
    at_snapshot,
    fitted,
)
from spark_sink.warehouse.iceberg.ddl import (
    NEVER_CHANGED,
    NEVER_MATCHES,
    alter_sql,
    create_sql,
    former,
    lost_metrics_sql,
    properties_at,
    refuse_clash,
    replace_sql,
)
from spark_sink.warehouse.ledger import Floor
from spark_sink.warehouse.milestones import Position
from spark_sink.warehouse.protocol import VersionGone
from spark_sink.warehouse.seen_rows import newest_of, seen_rows
from spark_sink.warehouse.shape import Shape
from wire.warehouse_folders import CUT, folder, unfolder

_log = logging.getLogger(__name__)
_OF_A_TABLE: Final = frozenset({"metadata", "data"})
"""The folders of an Iceberg table; a creation that was interrupted leaves them, too."""


@dataclass(slots=True, kw_only=True)
class IcebergTables:
    """Iceberg tables of a catalog; the names of their namespaces begin with `prefix`."""

    spark: SparkSession
    catalog: Catalog
    root: str | None
    """The folder that has only these tables; None in a catalog that may have others."""
    prefix: str = ""
    _large: set[Place] = field(default_factory=set)
    """Tables that were large once."""

    def place(self, database: str, table: str) -> Place:
        """Where the table is in the catalog."""
        names = f"{self.prefix}{folder(database)}", folder(table)
        if self.root is None:
            # Some catalogs divide namespaces at dots.
            return names[0].replace(".", "%2E"), names[1].replace(".", "%2E")
        return names

    def shape(self, database: str, table: str) -> Shape | None:
        place = self.place(database, table)
        found = self.catalog.table(place)
        if found is None:
            self._refuse_foreign(place)
            return None
        properties = found.properties()
        shape = _shape(found, (database, table), properties, found.schema())
        return without_foreign(shape, properties)

    def as_of(self, database: str, table: str, version: int) -> tuple[Shape, DataFrame]:
        """See protocol.Tables. The snapshot of that version, by its number."""
        name, place = f"{database}.{table}, version {version}", self.place(database, table)
        found = self.catalog.table(place)
        snapshot = None if found is None else found.snapshot_at(version)
        if found is None or (snapshot is None and version != 0):
            raise VersionGone(name)
        is_newest = version == found.version()
        properties = found.properties() if is_newest else properties_at(found.properties(), version)
        if properties is None:
            raise VersionGone(name)
        shape = _shape(found, (database, table), properties, found.schema_at(version))
        of_now = self.catalog.sql_name(place)
        with gone_by_name(name, GONE):
            if snapshot is None:
                return shape, fitted(self.spark.table(of_now).where("false"), shape)
            names = found.names_in_newest() if is_newest else None
            return shape, fitted(at_snapshot(self.spark, of_now, snapshot), shape, names)

    def newest(self, shape: Shape) -> dict[str, Position]:
        return newest_of(self.rows(shape))

    def evolve(self, held: Shape | None, wanted: Shape, *, is_made: bool = True) -> None:
        """See protocol.Tables.

        Where Iceberg cannot widen a type in place, the table is replaced by its own rows in the wider types.
        """
        refuse_clash(wanted)
        place = self.place(wanted.database, wanted.table)
        self.catalog.refuse_name(place, (wanted.database, wanted.table))
        table = self.catalog.sql_name(place)
        if held is None:
            self.catalog.make_namespace(place[0])
            statements: list[str] | None = [create_sql(table, wanted)]
        else:
            is_moved = wanted.followed != held.followed
            more = self._former(place, wanted) if is_moved else {}
            statements = alter_sql(table, held, wanted, more=more, is_made=is_made)
        if statements is None and held is not None:
            _log.info("table rewritten in wider types table=%s.%s", wanted.database, wanted.table)
            self._replace(wanted, fitted(self.rows(held, fixed=True), wanted), {})
        for statement in statements or ():
            again_on_conflict(partial(self.spark.sql, statement))

    def rename_columns(self, shape: Shape, names: Mapping[str, str]) -> Shape:
        """See protocol.Tables. Ends with a commit without rows, so that earlier versions have the old names."""
        renamed = shape.with_names(names)
        refuse_clash(renamed)
        place = self.place(shape.database, shape.table)
        # The shape that an interrupted call may have left.
        there = self.shape(shape.database, shape.table) or shape
        left = {old: new for old, new in names.items() if there.spelling(old) == old}
        more = self._former(place, replace(there, key=renamed.key))
        statements = renaming_sql(self.catalog.sql_name(place), there, renamed, left, more=more)
        for statement in statements:
            again_on_conflict(partial(self.spark.sql, statement))
        if statements:
            again_on_conflict(lambda: self.catalog.existing(place).commit())
        return renamed

    def reads_once(self, shape: Shape) -> bool:  # noqa: ARG002 - its MERGE always joins
        return False

    def merge(
        self, shape: Shape, rows: DataFrame, *, is_hard: bool = False, is_new: bool = False
    ) -> None:
        if is_new:
            self.evolve(None, shape)
        place = self.place(shape.database, shape.table)
        table = self.catalog.sql_name(place)
        with temporary_view(rows) as view:
            if place not in self._large and self.catalog.existing(place).size() >= LARGE:
                self._large.add(place)
            within = range_sql(key_bounds(shape, rows, is_large=place in self._large))
            statement = merge_sql(
                table,
                shape,
                source=view,
                within=within,
                of_log=NEVER_MATCHES if not shape.history else NEVER_CHANGED,
                is_hard=is_hard,
            )
            again_on_conflict(lambda: rows.sparkSession.sql(statement))

    def truncate(self, shape: Shape, floor: Floor, *, is_hard: bool = False) -> None:
        table = self.catalog.sql_name(self.place(shape.database, shape.table))
        statement = truncate_sql(table, shape, floor, is_hard=is_hard)
        again_on_conflict(lambda: self.spark.sql(statement))

    def rows(
        self, shape: Shape, *, beside: DataFrame | None = None, fixed: bool = False
    ) -> DataFrame:
        """See protocol.Tables. Reads in the session of `beside`, since a batch has its own."""
        place = self.place(shape.database, shape.table)
        session = self.spark if beside is None else beside.sparkSession
        found = session.table(self.catalog.sql_name(place))
        if not fixed:
            return own_rows(found, shape)
        loaded = self.catalog.table(place)
        snapshot = None if loaded is None else loaded.snapshot()
        if loaded is None or snapshot is None:
            return fitted(found.where("false"), shape)
        # A snapshot has the columns of its own time.
        rows = at_snapshot(session, self.catalog.sql_name(place), snapshot)
        return fitted(rows, shape, loaded.names_in_newest())

    def replace(
        self,
        shape: Shape,
        rows: DataFrame,
        *,
        cut: tuple[int, Offsets] | None = None,
    ) -> None:
        refuse_clash(shape)
        # Iceberg keeps properties that are not given; an empty one counts as absent.
        self._replace(shape, rows, {CUT_PROPERTY: cut_text(*cut) if cut else ""})

    def cut(self, database: str, table: str) -> tuple[int, dict[tuple[str, int], int]] | None:
        found = self.catalog.table(self.place(database, table))
        text = found.properties().get(CUT_PROPERTY) if found else None
        return parse_cut(text) if text else None

    def drop(self, database: str, table: str) -> None:
        place = self.place(database, table)
        # If a table's metadata cannot be read, only its folder can be removed.
        with suppress(Py4JJavaError) if self.root is not None else nullcontext():
            self.catalog.drop(place)
        if self.root is not None:
            Files(self.spark).delete(f"{self.root}/{place[0]}/{place[1]}")

    def current(self, database: str, table: str, *, bookkeeping: bool = False) -> DataFrame:
        shape = self.shape(database, table)
        if shape is None:
            raise UnknownTable(f"{database}.{table}")
        return seen_rows(self.rows(shape), shape, bookkeeping=bookkeeping)

    def names(self) -> list[tuple[str, str]]:
        found = []
        for namespace in self.catalog.namespaces():
            database = namespace.removeprefix(self.prefix)
            # Only the sink's own namespaces begin with an underscore, never a database's.
            if not namespace.startswith(self.prefix) or database.startswith("_"):
                continue
            for table in self.catalog.tables(namespace):
                name: tuple[str, str] | None = unfolder(database), unfolder(table)
                if self.root is None or CUT in database + table:
                    loaded = self.catalog.table((namespace, table))
                    stored = name_of(loaded.properties()) if loaded else None
                    name = stored or (None if self.root is None else name)
                if name is not None:
                    found.append(name)
        return found

    def _replace(self, shape: Shape, rows: DataFrame, more: Mapping[str, str]) -> None:
        place = self.place(shape.database, shape.table)
        self.catalog.refuse_name(place, (shape.database, shape.table))
        self.catalog.make_namespace(place[0])
        table = self.catalog.sql_name(place)
        session, held = rows.sparkSession, self.catalog.table(place)
        for statement in lost_metrics_sql(table, held.properties(), shape) if held else ():
            again_on_conflict(partial(session.sql, statement))
        given = {**self._former(place, shape), **more}
        with temporary_view(rows) as view:
            statement = replace_sql(table, shape, source=view, more=given)
            again_on_conflict(lambda: session.sql(statement))
        # The table's columns are those of a query, and have no comments yet.
        bare = replace(shape, comments=tuple(one for one in shape.comments if not one[0]))
        for comment in comment_sql(table, bare, shape):
            again_on_conflict(partial(session.sql, comment))

    def _former(self, place: Place, wanted: Shape) -> dict[str, str]:
        """The property that keeps what other properties state up to now, if `wanted` differs."""
        held = self.catalog.table(place)
        if held is None:
            return {}
        return former(held.properties(), held.version(), wanted, oldest=held.oldest_version())

    def _refuse_foreign(self, place: Place) -> None:
        """Raise ForeignTable if the folder of a table that does not exist has something in it."""
        if self.root is None:
            return
        path = f"{self.root}/{place[0]}/{place[1]}"
        if not _OF_A_TABLE.issuperset(Files(self.spark).names(path)):
            raise ForeignTable(path, advice=FOREIGN_ADVICE)


def _shape(
    table: IcebergTable,
    name: tuple[str, str],
    properties: Mapping[str, str],
    schema: StructType,
) -> Shape:
    """The shape in a table's properties and schema. Raise ForeignTable."""
    if (found := shape_of(name, properties, schema, comment=properties.get(COMMENT, ""))) is None:
        raise ForeignTable(table.location(), advice=FOREIGN_ADVICE)
    return found
