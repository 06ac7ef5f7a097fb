"""The snapshot of a destination: the reading of all tables whose existing rows are still to be published.

Invariant: the keys of a table's changed rows are recorded from before its first SELECT on; the
stream never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from app import metrics
from app.destination.plan import Plan
from app.destination.snapshot.entries import Entries
from app.destination.snapshot.table_reading import TableReading
from app.destination.takeover.initial_snapshots import without_gtids
from app.destination.takeover.takeover import TakenOver
from app.pipeline.portions.key_watch import KeyWatch
from app.pipeline.stage import StageSpec
from app.service.status import DestinationStatus
from connectors.mysql.charset.charsets import Charsets
from connectors.mysql.ddl.definition import Server, Table, TableName
from connectors.mysql.gtid import GtidSet
from connectors.mysql.server.facts import SourceAddress
from connectors.mysql.snapshot.chunk_reader import ChunkReader, DefinitionChanged
from tables.schema_history.record import Unresolved
from tables.snapshot import SnapshotState, TableSnapshot

log = logging.getLogger(__name__)

LANES = 2
"""Tables that are read at once."""


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """The reading of tables in one run."""

    destination: str
    address: SourceAddress
    charsets: Charsets
    server: Server
    server_id: int
    status: DestinationStatus
    entries: Entries
    definition: Callable[[TableName], Table | None]
    """A table as its history has it now; None if there is none. Raises DefinitionChanged if it is not known."""
    hidden: Callable[[TableName], Collection[str]]
    """The columns of a table whose values are not to be stored, by their names in lower case."""
    all: dict[TableName, TableSnapshot] = field(default_factory=dict)
    _readers: list[ChunkReader] = field(default_factory=list)
    _read_now: set[TableName] = field(default_factory=set)

    async def run(self) -> None:
        """Read all that is pending; ends with the run, or once everything is published."""
        self._show_all()
        pending = [one for _, one in sorted(self.all.items()) if one.is_pending]
        if not pending:
            return
        log.info("%s: the existing rows of %d table(s) are read", self.destination, len(pending))
        lanes = asyncio.Queue[TableSnapshot]()
        running: list[asyncio.Task[None]] = []
        for one in pending:
            lanes.put_nowait(one)
        try:
            running += [
                asyncio.create_task(self._lane(lanes)) for _ in range(min(LANES, len(pending)))
            ]
            await asyncio.gather(*running)
            await self._watch()
        finally:
            for lane in running:
                lane.cancel()
            for reader in self._readers:
                reader.close()
        log.info(
            "%s: the snapshot has ended: %s", self.destination,
            ", ".join(f"{count} table(s) {state}" for state, count in self._counts().items() if count),
        )  # fmt: skip

    async def _watch(self) -> GtidSet:
        """Record the keys of changed rows of the tables read now; return the transactions before that."""
        number = self.entries.number()
        entered = self.entries.hand_in(
            number,
            lambda start: KeyWatch(start=start, tables=frozenset(self._read_now), id=number),
        )
        gtids = (await entered).cursor.offset.gtid_set
        if not isinstance(gtids, GtidSet):
            raise without_gtids(self.address)
        return gtids

    async def _lane(self, waiting: asyncio.Queue[TableSnapshot]) -> None:
        while not waiting.empty():
            one = waiting.get_nowait()
            self._read_now.add(one.name)
            sees = await self._watch()
            reader = ChunkReader(
                self.address,
                one.name,
                charsets=self.charsets,
                server=self.server,
                definition=partial(self.definition, one.name),
                hidden=self.hidden(one.name),
            )
            self._readers.append(reader)
            reading = TableReading(
                one, reader, self.entries, server_id=self.server_id, sees=sees, show=self._show
            )
            await reading.run()
            reader.close()
            self._readers.remove(reader)
            self._read_now.remove(one.name)

    def _show(self, one: TableSnapshot) -> None:
        """Show a table's progress after a commit."""
        self.all[one.name] = one
        self._show_all()
        if one.state is SnapshotState.FAILED:
            log.error(
                "%s: existing rows of %s are not published: %s",
                self.destination, ".".join(one.name), one.error,
            )  # fmt: skip
        elif one.state is SnapshotState.GONE:
            log.warning(
                "%s: %s was dropped or renamed after %d of its existing rows; the others are not published, "
                "also under another name",
                self.destination, ".".join(one.name), one.rows,
            )  # fmt: skip
        elif not one.is_pending:
            log.info(
                "%s: %d existing row(s) of %s are published, in %d chunk(s)",
                self.destination, one.rows, ".".join(one.name), one.chunks,
            )  # fmt: skip

    def _counts(self) -> dict[SnapshotState, int]:
        return {
            state: sum(one.state is state for one in self.all.values()) for state in SnapshotState
        }

    def _show_all(self) -> None:
        self.status.snapshots = self.all
        for state, count in self._counts().items():
            metrics.SNAPSHOT_TABLES.labels(self.destination, state.value).set(count)


def snapshot_of(
    plan: Plan, led: TakenOver, spec: StageSpec, entries: Entries, status: DestinationStatus
) -> Snapshot:
    """The snapshot of a run, with what the journal has of it."""
    history = led.opened.history

    def definition(name: TableName) -> Table | None:
        now = history.now() if history is not None else None
        if now is None or isinstance(now.state(*name), Unresolved):
            raise DefinitionChanged("its definition is not known")
        return now.find(*name)

    def hidden(name: TableName) -> Collection[str]:
        route = spec.rules.routes.of(name)
        return route.column_rules if route is not None else ()

    return Snapshot(
        destination=plan.name,
        address=led.address,
        charsets=spec.charsets,
        server=spec.server,
        server_id=int(led.facts.variables.get("server_id", "0")),
        status=status,
        entries=entries,
        definition=definition,
        hidden=hidden,
        all=dict(led.state.snapshots.all),
    )
