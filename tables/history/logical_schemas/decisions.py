"""Decisions of operators on the differences of shards, and what a worker made of each.

Invariant: a decision is in force only once a worker has applied it, and only for the difference that it was
made for. The last one that was applied on a subject counts. Each outcome holds it, since the journal keeps only
the last decision that was sent on a subject, which may be refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.mysql.ddl.definition import TableName
from tables.journal_format import Entry, encoded, is_tombstone, read_as
from tables.journal_kind import Kind, StatePart

UNIT = "logical.schemas"
"""Where workers agree on leaders, and in the journal; no destination's name contains a dot."""


class Verb(Enum):
    """What is decided."""

    EXCLUDE = "exclude"
    """A shard does not count."""
    INCLUDE = "include"
    """It counts again."""
    ACCEPT = "accept"
    """The shards may differ as they do now."""
    TAKE_TYPE = "take type"
    """The type of a column whose types cannot be joined."""
    REOPEN = "reopen"
    """What was accepted or taken before no longer counts."""


_TOPICS = {
    Verb.EXCLUDE: "shard",
    Verb.INCLUDE: "shard",
    Verb.ACCEPT: "accept",
    Verb.TAKE_TYPE: "type",
    Verb.REOPEN: "reopen",
}

Subject = tuple[str, str]
"""A topic, and a shard or column if it is about one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision, as an operator sent it."""

    table: TableName
    """The logical table."""
    id: str
    """At random."""
    verb: Verb
    name: str = ""
    """The shard as text, or the column in lower case; empty for a decision on the whole table."""
    value: str = ""
    """The type to take, or the difference that is accepted."""
    by: str
    why: str
    ts_ms: int
    offset: int = field(default=-1, compare=False)
    """In the journal."""

    @property
    def subject(self) -> Subject:
        """What it replaces earlier decisions on."""
        return _TOPICS[self.verb], self.name

    def __str__(self) -> str:
        what = f"{self.verb.value} {self.name}".rstrip()
        return f"{what} as {self.value}" if self.verb is Verb.TAKE_TYPE else what


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What a worker made of a decision."""

    table: TableName
    subject: Subject
    id: str
    """That of the decision."""
    refused: str = ""
    """Why it is not in force; empty if it is."""
    state: str
    """The logical table's state with it."""
    in_force: Decision | None
    """The decision on the subject that is in force now: this one, or an earlier one if this is refused."""
    among: tuple[str, ...] = ()
    """The types of the shards for which the type in force was taken."""
    worker: str
    ts_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The decisions on one table that are in force."""

    excluded: Mapping[str, Decision] = field(default_factory=dict)
    """By the shard's name as text."""
    taken: Mapping[str, tuple[Decision, tuple[str, ...]]] = field(default_factory=dict)
    """By column, with the types among which each was taken."""
    accepted: Decision | None = None

    @property
    def all(self) -> list[Decision]:
        """All of them, in the order in which they were sent."""
        found = [*self.excluded.values(), *(one for one, _ in self.taken.values())]
        found += [self.accepted] if self.accepted is not None else []
        return sorted(found, key=lambda one: (one.offset, one.id))


@dataclass(slots=True)
class Decisions:
    """All decisions in the journal, and their outcomes."""

    _sent: dict[TableName, dict[Subject, Decision]] = field(default_factory=dict)
    _decided: dict[TableName, dict[Subject, Decided]] = field(default_factory=dict)

    def take(self, kind: str, _names: list[str], record: StoredRecord) -> None:
        """Fold a journal record in."""
        if is_tombstone(record):
            return  # a repair removed it, as no record of the key could be read
        if kind == DECISION.name:
            self.send(decision_in(record))
        else:
            self.decide(decided_in(record))

    def send(self, decision: Decision) -> None:
        """Add a decision; of those on a subject only the last is still decided on."""
        self._sent.setdefault(decision.table, {})[decision.subject] = decision

    def decide(self, decided: Decided) -> None:
        """Add what a worker made of one."""
        self._decided.setdefault(decided.table, {})[decided.subject] = decided

    def pending(self) -> list[Decision]:
        """Those that no worker has decided on, in the order in which they were sent."""
        found = [
            one
            for decisions in self._sent.values()
            for one in decisions.values()
            if self._outcome(one) is None
        ]
        return sorted(found, key=lambda one: one.offset)

    def in_force(self, table: TableName) -> InForce:
        """Those of one table that a worker has applied. One that is refused, or not yet decided on, leaves
        the earlier one on its subject in force; the outcome of that has it, whatever was sent since."""
        applied = [
            (one.in_force, one.among)
            for one in self._decided.get(table, {}).values()
            if one.in_force is not None
        ]
        reopened = max((one.offset for one, _ in applied if one.verb is Verb.REOPEN), default=-1)
        kept = [(one, among) for one, among in applied if one.offset > reopened]
        return InForce(
            excluded={one.name: one for one, _ in applied if one.verb is Verb.EXCLUDE},
            taken={one.name: (one, among) for one, among in kept if one.verb is Verb.TAKE_TYPE},
            accepted=next((one for one, _ in kept if one.verb is Verb.ACCEPT), None),
        )

    def before(self, decision: Decision) -> tuple[Decision | None, tuple[str, ...]]:
        """What is in force on the subject of a decision, and the types among which it was taken."""
        decided = self._decided.get(decision.table, {}).get(decision.subject)
        return (None, ()) if decided is None else (decided.in_force, decided.among)

    def _outcome(self, decision: Decision) -> Decided | None:
        decided = self._decided.get(decision.table, {}).get(decision.subject)
        return decided if decided is not None and decided.id == decision.id else None


DECISIONS_PART = StatePart(lambda _: Decisions())
DECISION: Kind[Any] = Kind(name="shards", part=DECISIONS_PART)
DECIDED: Kind[Any] = Kind(name="shards_decided", part=DECISIONS_PART)


def decision_in(record: StoredRecord) -> Decision:
    """The decision in a record; raise JournalUnreadable."""
    return read_as(
        "a decision on shards", record, lambda value: _decision({**value, "offset": record.offset})
    )


def decided_in(record: StoredRecord) -> Decided:
    """The outcome in a record; raise JournalUnreadable."""

    def read(value: dict[str, Any]) -> Decided:
        lists = {name: tuple(value[name]) for name in ("table", "subject", "among")}
        held = value["in_force"]
        return Decided(**{**value, **lists, "in_force": _decision(held) if held else None})

    return read_as("what a worker decided on shards", record, read)


def _decision(value: Mapping[str, Any]) -> Decision:
    return Decision(**{**value, "table": tuple(value["table"]), "verb": Verb(value["verb"])})


def note_of_decision(one: Decision) -> Entry:
    """A record for the journal: ``shards/logical.schemas/<database>/<table>/<topic>/<name>``."""
    value = _stored(one)
    del value["offset"]
    return DECISION.key(UNIT, *one.table, *one.subject), encoded(value)


def outcome_key(table: TableName, subject: Subject) -> bytes:
    """The key of an outcome: ``shards_decided/logical.schemas/…``, as that of its decision."""
    return DECIDED.key(UNIT, *table, *subject)


def note_of_decided(one: Decided) -> Entry:
    """A record for the journal."""
    value = {**asdict(one), "in_force": _stored(one.in_force) if one.in_force else None}
    return outcome_key(one.table, one.subject), encoded(value)


def _stored(one: Decision) -> dict[str, Any]:
    return {**asdict(one), "verb": one.verb.value}
