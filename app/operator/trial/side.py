"""One side of a trial: the worker's own pipeline with one mapping, which publishes nowhere.

Invariant: events are gathered, numbered and encoded as in a run, by the tables' history at each position. An
error that would end a run and quarantine a table quarantines it here too, from the same transaction on. Nothing
is written, not even images of large rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace

from app.operator.trial.published import Published, published_of
from app.worker.pipeline.capture.schema_tracker import SchemaTracker
from app.worker.pipeline.decoders.protocols import named
from app.worker.pipeline.gather.captured_tables import Schema, Unpublished
from app.worker.pipeline.number import Numbers
from app.worker.pipeline.piece import Piece
from app.worker.pipeline.portions import CapturedChunk, Effect
from app.worker.pipeline.rules import PublishingRules
from app.worker.pipeline.stage import StageSpec
from connectors.errors import ClaimGone, WitnessesDiffer
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import SourceOffset
from connectors.mysql.stream.chunk import Chunk
from tables.history.history import SchemaHistory
from tables.history.position import reached
from tables.rules.routes.routes import Routes
from tables.rules.routes.written_topics import growth, partitions_of, returned, spread_of
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor
from tables.state.quarantine import Quarantine


class Side:
    """The pipeline with one mapping."""

    def __init__(self, spec: StageSpec, history: SchemaHistory | None, cursor: Cursor) -> None:
        """``history`` is a copy for this side alone, as of the cursor's position; None: no history is kept."""
        # Transaction markers only count the records that are compared.
        rules = replace(spec.rules, markers=False, part_markers=False)
        self.rules = rules
        self._spec = replace(spec, rules=rules)
        self._stage = self._spec.make()
        self._stage.encoder.claims = _UnwrittenClaims()
        # Records in two formats could not be compared, so their envelopes are; a format carries what it can of
        # an envelope.
        self._stage.encoder.envelopes_only = True
        self._tracker = SchemaTracker.of(history, self._spec) if history is not None else None
        self._numbers = Numbers.of(cursor)
        self._learned: list[Effect] = []
        self.unreadable: dict[TableName, WitnessesDiffer] = {}
        """Tables that were quarantined within the trial because their rows cannot be published."""
        self.position = cursor.offset.coordinates
        """The position after the last whole transaction."""
        self.committed_ms = 0
        """The commit time of the last transaction, in milliseconds since 1970."""
        self.gtids: list[tuple[str, int, int]] = []
        """The GTIDs of the transactions that ended in the last chunk."""

    @property
    def routes(self) -> Routes:
        """The routes of this side's mapping."""
        return self.rules.routes

    def published(self, chunk: Chunk) -> Published:
        """Return this side's output for the next chunk; raise the error that would stop the destination."""
        effect = self._tracker.note(chunk) if self._tracker is not None else None
        portion = CapturedChunk(chunk, effect)
        found, begin = Published(), None
        while True:
            before = deepcopy(self._numbers)
            pieces = self._pieces(portion)
            error = pieces[-1].error
            own = published_of(pieces, self.rules)
            if not isinstance(error, WitnessesDiffer):
                break
            # As in the next run of a worker, which begins after the last whole transaction.
            found.add(own.part(begin, pieces[-1].coordinates))
            begin = pieces[-1].coordinates
            self._quarantine(error)
            self._numbers = before
        if error is not None:
            raise error
        found.add(own.part(begin, None))
        self._follow(pieces)
        self._learned = [] if portion.effect is None else [portion.effect]
        return found

    def _pieces(self, portion: CapturedChunk) -> list[Piece]:
        learned, self._learned = self._learned, []
        try:
            decoded = self._stage.decode(portion, learned)
            self._numbers, _ = decoded.number(self._numbers, [])
            return decoded.encode()
        except Exception as error:
            raise named(error, portion) from error

    def _quarantine(self, error: WitnessesDiffer) -> None:
        name = error.name_of_table
        if name in self.unreadable or not any(name):
            raise error
        self.unreadable[name] = error
        self._stage.tables.put(name, Unpublished.QUARANTINED)

    def _follow(self, pieces: list[Piece]) -> None:
        self.position = pieces[-1].coordinates
        self.gtids = [run for piece in pieces for run in piece.trace.gtids]
        self.committed_ms = max(self.committed_ms, *(piece.committed_ms for piece in pieces))


def rules_of_next(
    rules: PublishingRules, routes: Routes, versions: Sequence[TableVersion]
) -> PublishingRules:
    """Return the rules by which a mapping would come into force: topics get the partitions that it asks for.

    Raise MappingError if it states another partition count than a topic has, without asking for the change.
    """
    grown = growth(routes, versions)
    # The offsets of the boundary are only in table versions, which are not compared.
    spread = {
        **returned(versions),
        **spread_of(grown, dict.fromkeys(partitions_of(grown.items()), 0)),
    }
    return replace(rules, routes=routes, spread=spread)


def tried_again(quarantine: Quarantine) -> frozenset[TableName]:
    """Return the tables that a rule quarantined and that a worker tries again with a new mapping version."""
    pending = {one.name for one in quarantine.pending()}
    return frozenset(
        name
        for name, entry in quarantine.quarantined.items()
        if entry.is_by_rule and name not in pending
    )


def known_tables(
    routes: Routes,
    history: SchemaHistory | None,
    quarantine: Quarantine,
    offset: SourceOffset,
    *,
    again: frozenset[TableName] = frozenset(),
) -> dict[TableName, Schema]:
    """Return the captured tables as decoders need them at a position.

    ``again`` are quarantined tables to try again. A table that was quarantined or given up only later is as it
    was at the position. A table of which the mapping does not determine the topic is returned too: its rows
    quarantine it, as in a run.
    """
    tables = history.now().tables() if history is not None else {}
    known: dict[TableName, Schema] = {
        name: table for name, table in tables.items() if routes.captures(*name)
    }
    for name, entry in quarantine.entries.items():
        if name in again or reached(entry.since, offset) is False:
            continue
        if entry.is_quarantined:
            known[name] = Unpublished.QUARANTINED
        elif entry.is_given_up:
            known[name] = Unpublished.GIVEN_UP
    return known


class _UnwrittenClaims:
    """A claim store that keeps nothing: only the location is compared."""

    def put(self, name: str, _value: bytes) -> str:
        return name

    def get(self, name: str) -> bytes:
        raise ClaimGone("a trial keeps no images", path=name)
