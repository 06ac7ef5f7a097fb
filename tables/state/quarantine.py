"""Quarantined tables: since when and why, the operator's resolution, and the progress of the
release.

Invariant: once a table is quarantined, all its events wait in order, whatever later statements
change, until the events before them are published. A resolution has an id, so that each is tried
once; the progress of a release is written in the Kafka transaction of the rows that it counts. Only
an operator gives rows up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from connectors import errors
from connectors.errors import AqueductError, RuleImpossible, TopicUnusable, WitnessesDiffer
from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import Table, TableName
from tables.history.codec import Reading, given_from, given_json, position_json
from tables.history.definition_json import table_json
from tables.history.position import HistoryPosition
from tables.history.record import Given, SchemaRecord, remakes
from tables.journal_format import Entry as Note
from tables.journal_format import encoded, read_as
from tables.journal_kind import FoldedOffsets, Kind, StatePart


class Outcome(Enum):
    """The state of a table that was quarantined."""

    WAITING = "waiting"
    """Its events wait, without a resolution."""
    RELEASING = "releasing"
    """Some of its events are published."""
    REFUSED = "refused"
    """Its events do not fit the resolution; the table stays quarantined."""
    RELEASED = "released"
    """All events are published."""
    GIVEN_UP = "given up"
    """An operator gave it up: no events wait, and later ones are dropped."""


GIVE_UP = "give-up"
"""As a resolution's source: the table is given up."""
BY_MAPPING = "mapping"
"""As a resolution's source: a new version of the mapping, so the rules that did not fit may fit now."""
AGAIN = "again"
"""As a resolution's source: the cause was not in the table's rows, and is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """An operator's resolution of a quarantined table."""

    destination: str
    name: TableName
    id: str
    table: Table | None
    """Its definition at the first quarantined event; None: as the binlog itself describes it."""
    by: str
    ts_ms: int
    source: str = ""
    """Its source: ``server``, ``binlog``, ``definition``, ``statement``, or one of the constants above."""

    @property
    def gives_up(self) -> bool:
        """Whether the quarantined events and later ones are to be lost."""
        return self.source == GIVE_UP

    @property
    def keeps_definition(self) -> bool:
        """Whether the events are tried with the definition that the quarantine itself has."""
        return self.source in (BY_MAPPING, AGAIN)

    @property
    def given(self) -> Given:
        """The resolution's author, for the history."""
        return Given(by=self.by, ts_ms=self.ts_ms, source=self.source)

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "destination": self.destination,
            "database": self.name[0],
            "table": self.name[1],
            "id": self.id,
            "definition": None if self.table is None else table_json(self.table),
            "by": self.by,
            "ts_ms": self.ts_ms,
            "source": self.source,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], reading: Reading) -> Resolution:
        """Read what ``to_json`` wrote; raise KeyError, TypeError or ValueError if it is not that."""
        definition = value["definition"]
        return cls(
            destination=value["destination"],
            name=(value["database"], value["table"]),
            id=value["id"],
            table=None if definition is None else reading.definitions.table(definition),
            by=value["by"],
            ts_ms=value["ts_ms"],
            source=value.get("source", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A table that is or was quarantined, and the progress of its release."""

    destination: str
    name: TableName
    since: HistoryPosition
    why: str
    outcome: Outcome = Outcome.WAITING
    offset: int = 0
    """In the quarantine topic: the lowest offset of its next event."""
    resolution: str = ""
    """The id of the resolution that was tried last."""
    reason: str = ""
    """Why that resolution was refused."""
    table: Table | None = None
    """The definition at ``offset``, if a release was interrupted or ``is_by_rule``; None: not known."""
    given: Given | None = None
    """Who gave it up, if given up."""
    lost: int = 0
    """The number of waiting events when it was given up."""
    is_by_rule: bool = False
    """Whether the cause is outside the table's rows: a rule of the mapping, its topic, or the schema registry.
    Then ``table`` is the definition at ``offset``."""
    is_by_topic: bool = False
    """Whether the table is released by itself, once its topic can take its rows."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Topics whose brokers refused its rows, with digests of the topics' settings then, or empty texts if these
    could not be read. Once the settings differ, the table is released by itself."""
    error: str = ""
    """The name of the error; empty if a statement made it undecodable, or if an earlier worker noted it."""

    @property
    def is_quarantined(self) -> bool:
        """Whether its events wait."""
        return self.outcome not in (Outcome.RELEASED, Outcome.GIVEN_UP)

    @property
    def is_given_up(self) -> bool:
        """Whether its events are dropped."""
        return self.outcome is Outcome.GIVEN_UP

    @property
    def action(self) -> str:
        """What the operator should do, with the commands."""
        of_rule = RuleImpossible if self.is_by_rule else WitnessesDiffer
        error = getattr(errors, self.error, TopicUnusable if self.is_by_topic else of_rule)
        made: AqueductError = error(destination=self.destination, table=".".join(self.name))
        return made.action

    def error_after(self, refusal: AqueductError) -> str:
        """The name of the error that states what to do after ``refusal`` of a resolution.

        If the cause is outside the table's rows, it may be gone by now, and the refusal has another one.
        """
        if not self.is_by_rule:
            return self.error
        return refusal.name if isinstance(refusal, WitnessesDiffer) else WitnessesDiffer.__name__

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        return {
            "destination": self.destination,
            "database": self.name[0],
            "table": self.name[1],
            "since": position_json(self.since),
            "why": self.why,
            "outcome": self.outcome.value,
            "offset": self.offset,
            "resolution": self.resolution,
            "reason": self.reason,
            "definition": None if self.table is None else table_json(self.table),
            "given": given_json(self.given),
            "lost": self.lost,
            "by_rule": self.is_by_rule,
            "by_topic": self.is_by_topic,
            "refused": dict(self.refused),
            "error": self.error,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], reading: Reading) -> Entry:
        """Read what ``to_json`` wrote; raise KeyError, TypeError or ValueError if it is not that."""
        definition = value["definition"]
        return cls(
            destination=value["destination"],
            name=(value["database"], value["table"]),
            since=reading.position(value["since"]),
            why=value["why"],
            outcome=Outcome(value["outcome"]),
            offset=value["offset"],
            resolution=value["resolution"],
            reason=value["reason"],
            table=None if definition is None else reading.definitions.table(definition),
            given=given_from(value.get("given")),
            lost=value.get("lost", 0),
            is_by_rule=value.get("by_rule", False),
            is_by_topic=value.get("by_topic", False),
            refused=value.get("refused", {}),
            error=value.get("error", ""),
        )


def resolution_in(record: StoredRecord) -> Resolution:
    """The content of a journal record whose key begins with ``resolution``."""
    return _resolution(record, Reading())


def _resolution(record: StoredRecord, reading: Reading) -> Resolution:
    return read_as("a resolution", record, lambda value: Resolution.from_json(value, reading))


def _entry(record: StoredRecord, reading: Reading) -> Entry:
    what = "the record of a quarantined table"
    return read_as(what, record, lambda value: Entry.from_json(value, reading))


@dataclass(slots=True)
class Quarantine:
    """The quarantine of one destination in the journal."""

    destination: str = ""
    entries: dict[TableName, Entry] = field(default_factory=dict)
    resolutions: dict[TableName, Resolution] = field(default_factory=dict)
    _folded: FoldedOffsets = field(default_factory=FoldedOffsets, compare=False)
    _reading: Reading = field(default_factory=Reading, compare=False)

    def take(self, kind: str, names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in; one that was folded before changes nothing."""
        name = names[0], names[1]
        if kind == QUARANTINE.name:
            entry = _entry(record, self._reading)
            if self._folded.is_new(record):
                self.entries[name] = entry
        else:
            resolution = _resolution(record, self._reading)
            if self._folded.is_new(record):
                self.resolutions[name] = resolution

    @property
    def quarantined(self) -> dict[TableName, Entry]:
        """Tables whose events wait."""
        return {name: entry for name, entry in self.entries.items() if entry.is_quarantined}

    @property
    def given_up(self) -> dict[TableName, Entry]:
        """Tables whose events are dropped."""
        return {name: entry for name, entry in self.entries.items() if entry.is_given_up}

    def add(
        self,
        name: TableName,
        why: str,
        since: HistoryPosition,
        *,
        table: Table | None = None,
        is_by_rule: bool = False,
        is_by_topic: bool = False,
        refused: Mapping[str, str] | None = None,
        error: str = "",
    ) -> Entry:
        """Quarantine a table; if it is quarantined already, only note the failure of its pending resolution.

        A table that was given up has an error only if a statement or a resolution brings it back: it waits.
        ``table``: its definition at its first event that waits, if the cause is not in its rows.
        ``refused``: see ``Entry``.
        """
        before = self.entries.get(name)
        if before is not None and before.is_quarantined:
            tried = self.resolutions.get(name)
            if tried is not None and self._is_pending(tried):
                before = self.entries[name] = replace(
                    before,
                    resolution=tried.id,
                    outcome=Outcome.WAITING,
                    reason=why,
                    is_by_topic=is_by_topic and before.is_by_rule,
                    refused=refused or {},
                    error=error or before.error,
                )
            return before
        entry = self.entries[name] = Entry(
            destination=self.destination,
            name=name,
            since=since,
            why=why,
            offset=before.offset if before is not None else 0,
            # An earlier resolution was for other events, and is not tried on these.
            resolution=before.resolution if before is not None else "",
            table=table,
            is_by_rule=is_by_rule,
            is_by_topic=is_by_topic,
            refused=refused or {},
            error=error,
        )
        return entry

    def try_rules_again(self, *, version: int, ts_ms: int) -> list[Resolution]:
        """Resolve the tables that a rule quarantined, now that another version of the mapping is in force.

        A table with a pending resolution by an operator is left to that resolution.
        """
        names = [name for name, entry in self.quarantined.items() if entry.is_by_rule]
        by = f"version {version} of the mapping"
        return self._again(names, f"mapping-{version}", by, ts_ms=ts_ms, source=BY_MAPPING)

    def try_topics_again(
        self, names: Iterable[TableName], *, epoch: int, ts_ms: int
    ) -> list[Resolution]:
        """Resolve these tables, now that their topics can take their rows."""
        return self._again(names, f"topic-{epoch}", "its topic", ts_ms=ts_ms, source=AGAIN)

    def tried_ms(self, name: TableName) -> int:
        """The time, in milliseconds since 1970, at which a quarantined table was last to be published."""
        tried, since = self.resolutions.get(name), self.entries[name].since.ts_ms
        return since if tried is None else max(since, tried.ts_ms)

    def _again(
        self, names: Iterable[TableName], number: str, by: str, *, ts_ms: int, source: str
    ) -> list[Resolution]:
        """Resolve tables by the quarantine's definitions, except tables with a pending resolution."""
        pending = {each.name for each in self.pending()}
        found = [
            Resolution(
                destination=self.destination,
                name=name,
                id=number,
                table=None,
                by=by,
                ts_ms=ts_ms,
                source=source,
            )
            for name in names
            if name not in pending
        ]
        self.resolutions.update({one.name: one for one in found})
        return found

    def released_by_statement(self, record: SchemaRecord) -> list[Entry]:
        """Clear the given-up tables that a statement recreates or drops."""
        found = []
        for name in dict.fromkeys(change.name for change in record.changes if remakes(change)):
            entry = self.entries.get(name)  # type: ignore[arg-type]
            if entry is not None and entry.is_given_up:
                entry = self.entries[entry.name] = replace(entry, outcome=Outcome.RELEASED)
                found.append(entry)
        return found

    def pending(self) -> list[Resolution]:
        """Resolutions that were not tried to the end, the oldest first."""
        return sorted(
            (each for each in self.resolutions.values() if self._is_pending(each)),
            key=lambda each: each.ts_ms,
        )

    def _is_pending(self, resolution: Resolution) -> bool:
        entry = self.entries.get(resolution.name)
        if entry is None or entry.outcome is Outcome.RELEASED:
            return False
        return entry.resolution != resolution.id or entry.outcome is Outcome.RELEASING


QUARANTINE_PART = StatePart(Quarantine)
QUARANTINE: Kind[Any] = Kind(name="quarantine", part=QUARANTINE_PART)
RESOLUTION = Kind(name="resolution", part=QUARANTINE_PART, notice=resolution_in)


def note_of(what: Entry | Resolution) -> Note:
    """A record for the journal; ``quarantine/<destination>/<database>/<table>``, and ``resolution/…``."""
    kind = QUARANTINE if isinstance(what, Entry) else RESOLUTION
    return kind.key(what.destination, *what.name), encoded(what.to_json())
