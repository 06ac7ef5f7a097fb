"""The version of the mapping that each run of a destination publishes by.

Invariant: a run publishes by one version. The next version comes into force between two transactions of the
source, at the cursor from which a new run begins. The Kafka transaction of that run's claim records the version
and this position in the journal. A transaction published in parts ends with the version with which it began, on
whichever worker.

Nothing is published while a run starts. So that versions in quick succession cannot stop publishing, a run ends
for a newer version only after it has published for as long as its start took. The next run takes the newest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from app import metrics
from app.worker.mapping_versions.watch import Mappings, UsableVersion
from app.worker.pipeline.rules import PublishingRules
from app.worker.status import TO_PUBLISH, DestinationStatus
from connectors.errors import MappingError, RunRestarts
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.position import SourceOffset
from tables.journal_format import Entry as Note
from tables.rules.mapping.stored_version import StoredVersion
from tables.rules.routes.routes import Routes
from tables.state.cursor import Cursor
from tables.state.journal.state import DestinationState
from tables.state.mapping_in_force import MAPPING_PART, MappingInForce, copy_of, note_of, refusal_of

log = logging.getLogger(__name__)

_MOST_FAULTS = 20
_LEAST_SECONDS = 1.0
"""The least time for which a run publishes before it ends for a newer version."""
_IDLE_SECONDS = 5.0
"""The same for a run that has committed nothing: its source is idle, or its first rows take long."""


@dataclass(slots=True, kw_only=True)
class MappingChoice:
    """The choice of one destination, over all its runs on this worker."""

    destination: str
    mappings: Mappings
    status: DestinationStatus
    clock: Callable[[], float] = time.monotonic
    """In seconds."""
    _refused: dict[int, str] = field(default_factory=dict)
    """Versions that the destination's tables do not fit, with the reasons."""
    _wanted: int | None = None
    """The version that the next run must publish by."""
    _chosen: UsableVersion | None = None
    """The version of the present run."""
    _in_force: MappingInForce | None = None
    """The newest version in the journal."""
    _copy: StoredVersion | None = None
    """The journal's copy of a version that was in force."""
    _is_claimed: bool = False
    _begun: float = 0.0
    """When the present run began, by the clock."""
    _ready: float | None = None
    """When the present run had started and could publish; None before that."""
    _claimed_at: SourceOffset | None = None
    """The position of the run's claim; None until the run can publish."""

    @property
    def number(self) -> int | None:
        """The version of the present run."""
        return self._chosen.number if self._chosen is not None else None

    async def rules_of(self, rules: PublishingRules) -> PublishingRules:
        """Choose the version for a run that begins, and return the rules with it.

        Raise MappingError if the version in force cannot be used, CoordinationLost if it is not known here.
        """
        await self.mappings.first()
        self.show()
        newest, self._is_claimed = self.mappings.newest, False
        self._begun, self._ready = self.clock(), None
        wanted, self._wanted = self._wanted, None
        if wanted is None and newest is not None and newest.number in self._refused:
            wanted = self._in_force.version if self._in_force is not None else None
        # Unset first: if the version cannot be read, ``refuse`` must not fall back to another one.
        self._chosen = None
        self._chosen = newest if wanted is None else await self.mappings.version(wanted, self._copy)
        mapping = self._chosen.mapping if self._chosen is not None else None
        return replace(rules, routes=replace(rules.routes, mapping=mapping))

    def journal_read(self, state: DestinationState) -> None:
        """Check the choice by the journal.

        Raise RunRestarts if the run must publish by the version in force instead, MappingError if there is
        no version to publish by.
        """
        known, chosen = state.parts[MAPPING_PART], self._chosen
        last = known.last
        self._in_force, self._copy = last, known.copy
        if known.refused is not None:
            # Whichever worker refused it: a takeover is no reason to try it again.
            self._refused.setdefault(*known.refused)
        if last is None:
            refused = self.mappings.refused
            if refused is not None and (chosen is None or refused.number > chosen.number):
                raise MappingError(f"version {refused.number}: {refused.why}")
            if chosen is None:
                raise MappingError(
                    "mapping.store is zookeeper, and there is no version yet; store one with "
                    "`python -m app mapping set`"
                )
            return
        is_within = state.cursor is not None and state.cursor.resume is not None
        if (
            chosen is None
            or chosen.number < last.version
            or (chosen.number > last.version and (is_within or chosen.number in self._refused))
        ):
            self._restart_by(last.version)
        elif chosen.number == last.version and chosen.digest != last.digest:
            if self._copy is not None and self._copy.digest == last.digest:
                log.error(
                    "%s: version %d of the mapping in ZooKeeper is not the one in force, whose copy in the "
                    "journal is used: the store was emptied or replaced. Store the mapping again with "
                    "`python -m app mapping set`",
                    self.destination, last.version,
                )  # fmt: skip
                self._restart_by(last.version)
            raise MappingError(
                f"version {last.version} in ZooKeeper is not the one in force, whose digest is {last.digest}: "
                "the store was emptied or replaced; store the mapping again with "
                f"`python -m app mapping set --after {last.version}`"
            )

    def _restart_by(self, version: int) -> None:
        self._wanted = version
        raise RunRestarts(f"by version {version} of the mapping, which is in force at its cursor")

    def notes(self, cursor: Cursor, routes: Routes, names: Iterable[TableName]) -> list[Note]:
        """Return the journal record of a version that comes into force at the claim's cursor.

        The list is empty if the version is in force already. Raise MappingError if the source's tables do not
        fit a version that is not in force yet.
        """
        chosen, last = self._chosen, self._in_force
        if chosen is None or (last is not None and last.version == chosen.number):
            return []
        if faults := faults_of(routes, names):
            raise MappingError.listed(faults)
        self._in_force = MappingInForce(
            destination=self.destination,
            version=chosen.number,
            digest=chosen.digest,
            position=str(cursor.offset),
            seq=cursor.seq,
            ts_ms=time.time_ns() // 1_000_000,
        )
        return [note_of(self._in_force)]

    def kept(self, state: DestinationState) -> list[Note]:
        """Return the records that the journal still lacks.

        They are a copy of the version that this run publishes by, in case ZooKeeper loses it, and the newest
        refused version.
        """
        known, chosen = state.parts[MAPPING_PART], self._chosen
        stored = chosen.stored if chosen is not None else None
        is_new = stored is not None and stored != known.copy
        found = copy_of(self.destination, stored) if stored is not None and is_new else []
        if self._refused:
            refused = max(self._refused)
            one = (refused, self._refused[refused])
            found += [refusal_of(self.destination, *one)] if one != known.refused else []
        return found

    def claimed(self) -> None:
        """Record that the claim, and the version with it, is committed."""
        self._is_claimed = True
        found = self._in_force
        if found is not None:
            log.info(
                "%s: version %d of the mapping is in force from %s",
                self.destination, found.version, found.position,
            )  # fmt: skip
        self.show()

    def refuse(self, error: MappingError) -> bool:
        """Refuse the version of a run that ended before its claim; return whether another one can be used."""
        chosen, last = self._chosen, self._in_force
        if self._is_claimed or chosen is None or last is None or last.version == chosen.number:
            return False
        self._refused[chosen.number] = error.detail
        self._wanted = last.version
        log.error(
            "%s: version %d of the mapping is refused, and version %d stays in force: %s. To try it again: "
            "`python -m app mapping rollback %d`",
            self.destination, chosen.number, last.version, error.detail, chosen.number,
        )  # fmt: skip
        self.show()
        return True

    def check(self, cursor: Cursor) -> None:
        """Raise RunRestarts if a newer version can come into force at this committed cursor.

        Called while the run publishes.
        """
        newest, chosen = self.mappings.newest, self._chosen
        has_published = self._has_published(cursor)
        if newest is None or chosen is None or cursor.resume is not None or not has_published:
            return
        if newest.number > chosen.number and newest.number not in self._refused:
            raise RunRestarts(
                f"to bring version {newest.number} of the mapping into force at {cursor.offset}"
            )

    def _has_published(self, cursor: Cursor) -> bool:
        """Return whether this run was able to publish for long enough to end for a newer version."""
        now = self.clock()
        if self._ready is None:
            self._ready, self._claimed_at = now, cursor.offset
        start, published = self._ready - self._begun, now - self._ready
        has_committed = cursor.offset != self._claimed_at
        return published >= max(start, _LEAST_SECONDS if has_committed else _IDLE_SECONDS)

    def show(self) -> None:
        """Show the version in force, and a waiting or refused version; set the metrics only if led here."""
        newest, refused = self.mappings.newest, self.mappings.refused
        found = self._in_force if self._is_claimed else None
        number = found.version if found is not None else 0
        latest = newest.number if newest is not None else 0
        why = self._refused.get(latest) if latest > number else None
        if refused is not None and refused.number > latest:
            latest, why = refused.number, refused.why
        waiting = latest if latest > number else None
        if (
            found is not None
            and newest is not None
            and waiting is None
            and (newest.number < number or newest.digest != found.digest)
        ):
            waiting = newest.number
            why = (
                f"version {number} is in force, which ZooKeeper does not have: no other version up to that "
                "number is taken. Store the mapping again: `python -m app mapping set FILE --why TEXT`"
            )
        self.status.mapping = {
            "version": number or None,
            "since": found.position if found is not None else None,
            "waiting": waiting,
            "refused": why,
        }
        if self.status.state in TO_PUBLISH:
            metrics.MAPPING_VERSION.labels(self.destination).set(number)
            metrics.MAPPING_NEWEST.labels(self.destination).set(latest)


def faults_of(routes: Routes, names: Iterable[TableName]) -> list[str]:
    """Return the first faults that a mapping has for existing tables."""
    faults: list[str] = []
    for name in sorted(names):
        route = routes.of(name)
        if route is not None and route.fault:
            faults.append(route.fault)
            if len(faults) == _MOST_FAULTS:
                break
    return faults
