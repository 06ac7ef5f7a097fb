"""The records that a worker would publish for selected rows, made by the worker's own pipeline.

Invariant: key, columns, rules, masking and filters are those of the pipeline's gather, number and encode;
nothing is published, and no image is put into a claim store. A row with a masked key has no raw value of the
key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import orjson

from app.operator.validation.errors import NotComparable, TableChanged
from app.operator.validation.folded_topic import SelectedRow
from app.operator.validation.present_images import own_image, stored
from app.worker.pipeline.formats.protocol import WrittenImage
from app.worker.pipeline.formats.registry import form_named
from app.worker.pipeline.gather.captured_tables import CapturedTable
from app.worker.pipeline.number import Numbers
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import KeyWatch, Portion, SelectedRows
from app.worker.pipeline.rules import PublishingRules
from app.worker.pipeline.stage import ChunkStage, StageSpec
from connectors.errors import RuleImpossible, UnsupportedEvent, WitnessesDiffer
from connectors.kafka.record_batches import finished_records
from connectors.mysql.ddl.definition import Table, TableName
from connectors.mysql.position import Coordinates
from connectors.mysql.select.chunk_reader import ReadChunk
from connectors.mysql.select.described_table import described_table
from tables.rules.mapping.rules import DEBEZIUM
from tables.rules.routes.routes import Route
from wire.table_version import Definition

_NO_POSITION = Coordinates("", 0)


class ExpectedRows:
    """The worker's pipeline, for the rows of some tables as they are defined now."""

    def __init__(self, spec: StageSpec) -> None:
        self._spec = replace(spec, rules=_plain(spec.rules))
        self._stage: ChunkStage = self._spec.make()
        self._stage.encoder.envelopes_only = True
        self._written: dict[TableName, WrittenImage] = {}
        """Makes the images of tables whose records are not envelopes."""
        self._raw_keys = set[TableName]()
        """The tables whose keys are published as the source has them."""
        self._numbers = Numbers(seq=0, safe=_NO_POSITION)

    def captures(self, name: TableName) -> bool:
        """Return whether rows of a table are published."""
        return self._stage.tables.captures(name)

    def definition(self, name: TableName, table: Table) -> Definition:
        """Return the columns of a table as its records have them now.

        Raise NotComparable if its rows cannot be compared, SnapshotUnsupported if they cannot be read exactly.
        """
        captured = self.captured(name, table)
        if reason := _obstacle(captured):
            raise NotComparable(reason)
        if captured.has_row_keys:
            self._raw_keys.add(name)
        found, name_of_format = captured.definition, captured.route.format
        if name_of_format != DEBEZIUM:
            form = form_named(name_of_format, self._spec.rules)
            self._written[name] = form.written(name, found)
        return found

    def masks_key(self, name: TableName) -> bool:
        """Return whether the keys of a table are published masked; ``definition`` must be called before."""
        return name not in self._raw_keys

    def written(self, name: TableName) -> WrittenImage | None:
        """Return what makes a table's images, or None if the envelope's images are compared.

        ``definition`` must have been called for the table.
        """
        return self._written.get(name)

    def captured(self, name: TableName, table: Table) -> CapturedTable:
        """Return a table as the worker captures it now; raise as ``definition``."""
        spec = self._spec
        mapped = described_table(name, table, spec.charsets, server=spec.server)
        try:
            captured = self._stage.tables.of(mapped)
        except (RuleImpossible, WitnessesDiffer, UnsupportedEvent) as error:
            raise NotComparable(error.detail) from error
        if not isinstance(captured, CapturedTable):
            raise NotComparable(
                "it is not published"
                if captured is None
                else "it is quarantined, or was given up: see `python -m app schema quarantine`"
            )
        return captured

    def of(self, name: TableName, chunk: ReadChunk) -> tuple[list[SelectedRow], int]:
        """Return a chunk's rows as they would be published, and the count of rows that would be dead letters.

        Raise TableChanged if the table is not published as before, NotComparable if its rows make no records.
        """
        route = self._spec.rules.routes.of(name)
        assert route is not None
        self._pieces(KeyWatch(start=chunk.high, tables=frozenset({name}), id=0))
        (piece,) = self._pieces(
            SelectedRows(
                start=chunk.high,
                table=name,
                read="validation",
                id=0,
                read_ms=chunk.began_ms,
                server_id=0,
                since=0,
                begins=0,
                kept=0,
                table_map=chunk.table_map,
                blocks=chunk.blocks,
                note=(b"", b""),
            )
        )
        if piece.error is not None:
            why = f"its rows make no records: {piece.error.name}: {piece.error.detail}"
            raise NotComparable(why) from piece.error
        entered = piece.entered[0]
        if entered.unreadable is not None:
            raise NotComparable(entered.unreadable)
        if entered.refused is not None:
            raise TableChanged(entered.refused, name)
        found = list(_rows(piece, route, chunk, self._written.get(name)))
        if self.masks_key(name):
            found = [one._replace(literals=()) for one in found]
        return found, len(piece.dead_letters)

    def _pieces(self, portion: Portion) -> list[Piece]:
        decoded = self._stage.decode(portion, [])
        self._numbers, _ = decoded.number(self._numbers, [])
        return decoded.encode()


def _plain(rules: PublishingRules) -> PublishingRules:
    """The rules without those that only concern the writing of records."""
    return replace(rules, markers=False, part_markers=False, oversize="stop", compression=None)


def _obstacle(table: CapturedTable) -> str | None:
    """Why the folded topic of a table does not have the source's rows; None if it has them."""
    route = table.route
    # A rule that could make two keys equal is refused for a column of the key.
    if not table.identifies_rows:
        return "its records have no key that identifies rows"
    rules = route.mapped.rules if route.mapped is not None else None
    if rules is not None and not route.publishes_all:
        return f"only these operations are published of it: {', '.join(rules.operations)}"
    return None


def _rows(
    piece: Piece, route: Route, chunk: ReadChunk, written: WrittenImage | None
) -> Iterator[SelectedRow]:
    for batch in piece.batches:
        if batch.topic != route.topic:
            continue
        for key, value, _ in finished_records(batch):
            assert key is not None
            assert value is not None
            content = orjson.loads(value)
            # A row that rules omit keeps its ordinal.
            literals = chunk.keys[content["source"]["row"]]
            image = content["after"] if written is None else written(content["after"])
            yield SelectedRow(key, stored(own_image(image)), literals)
