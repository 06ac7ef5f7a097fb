"""Decisions of operators on the differences of shards, and the outcome of each.

Invariant: a decision is in force only once a worker has applied it, and only for the difference that it was
made for. On each subject, the decision that was applied last counts. Each outcome contains that decision, since
the journal keeps only the last decision that was sent on a subject, which may be refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import TableName
from tables.journal_format import Entry, encoded, is_tombstone, read_as, unquoted
from tables.journal_kind import Kind, StatePart

UNIT = "logical.schemas"
"""The name in the leadership and in the journal; no destination's name contains a dot."""


class Verb(Enum):
    """What is decided."""

    EXCLUDE = "exclude"
    """A shard does not count."""
    INCLUDE = "include"
    """An excluded shard counts again."""
    ACCEPT = "accept"
    """The shards may differ as they do now."""
    TAKE_TYPE = "take type"
    """A column whose types cannot be joined gets the decision's type."""
    REOPEN = "reopen"
    """Differences and types that were accepted or taken before no longer count."""


_TOPICS = {
    Verb.EXCLUDE: "shard",
    Verb.INCLUDE: "shard",
    Verb.ACCEPT: "accept",
    Verb.TAKE_TYPE: "type",
    Verb.REOPEN: "reopen",
}

Subject = tuple[str, str]
"""A topic of decisions, and the shard or column that the decision is about, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision, as an operator sent it."""

    table: TableName
    """The logical table."""
    id: str
    """A random id."""
    verb: Verb
    name: str = ""
    """The shard as text, or the column in lower case; empty for a decision on the whole table."""
    value: str = ""
    """The type to take, or the difference that is accepted."""
    by: str
    why: str
    ts_ms: int
    offset: int = field(default=-1, compare=False)
    """The offset of its record in the journal."""

    @property
    def subject(self) -> Subject:
        """The subject on which it replaces earlier decisions."""
        return _TOPICS[self.verb], self.name

    def __str__(self) -> str:
        what = f"{self.verb.value} {self.name}".rstrip()
        return f"{what} as {self.value}" if self.verb is Verb.TAKE_TYPE else what


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The outcome of a decision."""

    table: TableName
    subject: Subject
    id: str
    """The decision's id."""
    refused: str = ""
    """Why the decision is not in force; empty if it is."""
    state: str
    """The logical table's state after the decision."""
    in_force: Decision | None
    """The decision that is now in force on the subject: this one, or an earlier one if this one is refused."""
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
        """All decisions in force, in the order in which they were sent."""
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
        """Add a decision; it replaces an earlier decision on its subject."""
        self._sent.setdefault(decision.table, {})[decision.subject] = decision

    def decide(self, decided: Decided) -> None:
        """Add the outcome of a decision."""
        self._decided.setdefault(decided.table, {})[decided.subject] = decided

    def pending(self) -> list[Decision]:
        """The decisions without an outcome, in the order in which they were sent."""
        found = [
            one
            for decisions in self._sent.values()
            for one in decisions.values()
            if self._outcome(one) is None
        ]
        return sorted(found, key=lambda one: one.offset)

    def in_force(self, table: TableName) -> InForce:
        """The decisions on one table that a worker has applied.

        A decision that is refused, or has no outcome yet, leaves the earlier decision on its subject in force:
        the subject's outcome contains it, whatever was sent since.
        """
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
        """The decision in force on a decision's subject, and the types among which it was taken."""
        decided = self._decided.get(decision.table, {}).get(decision.subject)
        return (None, ()) if decided is None else (decided.in_force, decided.among)

    def _outcome(self, decision: Decision) -> Decided | None:
        decided = self._decided.get(decision.table, {}).get(decision.subject)
        return decided if decided is not None and decided.id == decision.id else None


def table_of(key: bytes) -> TableName | None:
    """The logical table that the key of a decision or of an outcome names; None for any other key."""
    kind, *names = key.decode("utf-8", "replace").split("/")
    if kind not in (DECISION.name, DECIDED.name) or len(names) != _NAMES_IN_KEY:
        return None
    return unquoted(names[1]), unquoted(names[2])


_NAMES_IN_KEY = 5
"""The unit, the two names of the logical table, the topic of the decision, and its shard or column."""
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
        found = Decided(**{**value, **lists, "in_force": _decision(held) if held else None})
        _refuse_others(found.table, found.subject, found.among, found.id, found.refused)
        return found

    return read_as("what a worker decided on shards", record, read)


def _decision(value: Mapping[str, Any]) -> Decision:
    found = Decision(**{**value, "table": tuple(value["table"]), "verb": Verb(value["verb"])})
    _refuse_others(found.table, (found.name, found.value), (found.by, found.why), found.id)
    return found


def _refuse_others(
    table: tuple[object, ...], pair: tuple[object, ...], more: tuple[object, ...], *texts: object
) -> None:
    """Raise TypeError if names are not texts, or a table or another pair has not two of them."""
    if len(table) != 2 or len(pair) != 2:
        raise TypeError("a pair of names has another length")
    if not all(isinstance(one, str) for one in (*table, *pair, *more, *texts)):
        raise TypeError("a name is no text")


def note_of_decision(one: Decision) -> Entry:
    """A record for the journal: ``shards/logical.schemas/<database>/<table>/<topic>/<name>``."""
    value = _stored(one)
    del value["offset"]
    return DECISION.key(UNIT, *one.table, *one.subject), encoded(value)


def outcome_key(table: TableName, subject: Subject) -> bytes:
    """The key of an outcome: ``shards_decided/logical.schemas/…``, with the names in its decision's key."""
    return DECIDED.key(UNIT, *table, *subject)


def note_of_decided(one: Decided) -> Entry:
    """A record for the journal."""
    value = {**asdict(one), "in_force": _stored(one.in_force) if one.in_force else None}
    return outcome_key(one.table, one.subject), encoded(value)


def _stored(one: Decision) -> dict[str, Any]:
    return {**asdict(one), "verb": one.verb.value}
