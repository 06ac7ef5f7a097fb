"""The schema of one logical table: its shards' columns united, and how far the shards agree.

Invariant: it depends on the shards and on the decisions in force alone. Until all shards have a change, the
columns can hold every shard's rows.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from connectors.mysql.ddl.definition import TableName
from tables.history.impact.type_change import (
    Relation,
    ValueKind,
    charset_relation,
    kind_of,
    relation,
)
from tables.history.logical_schemas.decisions import Decision, InForce, Verb
from tables.history.logical_schemas.shard import Form, Shard, ShardName
from wire.records import WIRE_VERSION
from wire.table_version import Column, without_chosen_width

_NOTHING = InForce()
_TYPE = re.compile(r"[a-z]+(\(.+\))?( unsigned)?|decimal\(\d+,\d+\)( unsigned)?")


class State(Enum):
    """How far the shards agree."""

    EQUAL = "equal"
    CONVERGING = "converging"
    """Some shards have a change that others lack; the columns hold the rows of all."""
    CONFLICT = "conflict"
    """The shards differ in a way that no common column can hold."""
    ACCEPTED = "accepted"
    """The shards differ, and operators have decided on all differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalColumn:
    """A column of a logical table."""

    name: str
    type: str | None
    """None if the shards' types cannot be joined, and no type was taken."""
    nullable: bool
    charset: str | None
    column_type: str | None
    """None unless all shards have the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSchema:
    """The schema of a logical table now."""

    name: TableName
    state: State
    columns: tuple[LogicalColumn, ...]
    primary_key: tuple[str, ...] | None
    """The columns of the records' key; None if the shards have different keys."""
    changes: tuple[Change, ...]
    """The differences among the shards that are neither excluded nor dropped."""
    decided: frozenset[Change]
    """The differences that a taken type settles."""
    shards: tuple[Shard, ...]
    decisions: InForce

    @property
    def difference(self) -> str:
        """The digest of the unsettled differences, by which an operator accepts exactly these; may be empty."""
        found = sorted(one.identity for one in self.changes if one not in self.decided)
        return hashlib.sha256("\0\0".join(found).encode()).hexdigest()[:16] if found else ""

    def is_excluded(self, shard: Shard) -> bool:
        """Whether an operator excluded a shard."""
        return str(shard.name) in self.decisions.excluded

    def counts(self, shard: Shard) -> bool:
        """Whether a shard takes part in the comparison."""
        return shard.dropped_ms is None and not self.is_excluded(shard)

    def key_json(self) -> dict[str, str]:
        """The key of its record."""
        return {"database": self.name[0], "table": self.name[1]}

    def to_json(self) -> dict[str, Any]:
        """The content of its record, without number and times: equal schemas have equal contents."""
        return {
            **self.key_json(),
            "state": self.state.value,
            "columns": [
                {
                    "name": one.name,
                    "type": one.type,
                    "nullable": one.nullable,
                    "charset": one.charset,
                    "column_type": one.column_type,
                }
                for one in self.columns
            ],
            "primary_key": None if self.primary_key is None else list(self.primary_key),
            "changes": [self._change_json(one) for one in self.changes],
            "shards": [self._shard_json(one) for one in self.shards],
            "decisions": [_decision_json(one) for one in self.decisions.all],
            "difference": self.difference,
            "wire": WIRE_VERSION,
        }

    def _change_json(self, one: Change) -> dict[str, Any]:
        return {
            "change": one.kind.value,
            "text": str(one),
            "column": one.column or None,
            "to": one.to or None,
            "forms": list(one.forms),
            "conflict": one.is_conflict,
            "settled": one in self.decided,
            "done": list(map(str, one.done)),
            "lacking": list(map(str, one.lacking)),
        }

    def _shard_json(self, one: Shard) -> dict[str, Any]:
        return {
            **one.name._asdict(),
            "name": str(one.name),
            "version": one.version,
            "excluded": self.is_excluded(one),
            "dropped_ms": one.dropped_ms,
            "lacks": [str(change) for change in self.changes if one.name in change.lacking],
        }


def logical_schema(
    name: TableName, shards: Iterable[Shard], decisions: InForce = _NOTHING
) -> LogicalSchema:
    """The schema of a logical table with at least one shard."""
    ordered = tuple(sorted(shards, key=lambda one: one.name))
    existing = [one for one in ordered if one.dropped_ms is None] or list(ordered)
    counted = [one for one in existing if str(one.name) not in decisions.excluded] or existing
    columns = _union(counted)
    changes = tuple(changes_of(counted, columns))
    decided = frozenset(one for one in changes if _is_taken(one, counted, decisions))
    found = LogicalSchema(
        name=name,
        state=State.EQUAL,
        columns=tuple(_column(counted, column, decisions) for column in columns),
        primary_key=None
        if any(one.kind is ChangeKind.KEY for one in changes)
        else counted[0].definition.primary_key,
        changes=changes,
        decided=decided,
        shards=ordered,
        decisions=decisions,
    )
    return replace(found, state=_state(found, _differ(existing)))


def refusal(decision: Decision, schema: LogicalSchema) -> str:
    """Why a decision cannot be applied to a logical table as it is now; empty if it can."""
    names = {str(one.name) for one in schema.shards}
    existing = {str(one.name) for one in schema.shards if one.dropped_ms is None}
    match decision.verb:
        case Verb.EXCLUDE if decision.name not in names:
            return f"it has no real table {decision.name}"
        case Verb.EXCLUDE if existing <= {*schema.decisions.excluded, decision.name}:
            return f"{decision.name} is the last real table that counts"
        case Verb.INCLUDE if decision.name not in {*names, *schema.decisions.excluded}:
            return f"it has no real table {decision.name}"
        case Verb.ACCEPT if not schema.difference:
            return "its real tables do not differ"
        case Verb.ACCEPT if decision.value != schema.difference:
            return "its real tables differ in another way by now; see `shards show`"
        case Verb.TAKE_TYPE:
            return _type_refusal(decision, types_of(schema, decision.name))
    return ""


def types_of(schema: LogicalSchema, column: str) -> tuple[str, ...]:
    """The types of a column in the shards that count, sorted."""
    counted = [one for one in schema.shards if schema.counts(one)]
    return tuple(sorted({one.forms[column].type for one in counted if column in one.forms}))


def _type_refusal(decision: Decision, types: Sequence[str]) -> str:
    if not types:
        return f"it has no column {decision.name}"
    if len(types) == 1:
        return f"all real tables have {decision.name} as {types[0]}"
    if decision.value in types:
        return ""
    is_type = (
        _TYPE.fullmatch(decision.value)
        and decision.value.partition("(")[0] != "decimal"
        and is_understood(decision.value)
    )
    if not is_type or not contains_all(decision.value, types):
        return (
            f"{decision.value} neither is a type of {decision.name} in a real table nor holds all values of "
            f"{', '.join(types)}"
        )
    return ""


def _union(shards: Sequence[Shard]) -> list[str]:
    """All columns in lower case; a column that earlier shards lack follows its neighbour in its own shard."""
    found: list[str] = []
    for shard in shards:
        at = 0
        for name in shard.forms:
            if name in found:
                at = found.index(name) + 1
            else:
                found.insert(at, name)
                at += 1
    return found


def _column(shards: Sequence[Shard], name: str, decisions: InForce) -> LogicalColumn:
    written = [
        column
        for shard in shards
        for column in shard.definition.columns
        if column.name.lower() == name
    ]
    forms = [Form.of(column) for column in written]
    joined = joined_form(forms)
    taken = _taken(name, forms, decisions)
    texts = {
        None if column.column_type is None else without_chosen_width(column.column_type)
        for column in written
    }
    found = joined or next((form for form in forms if form.type == taken), None)
    return LogicalColumn(
        name=written[0].name,
        type=taken or (joined.type if joined else None),
        nullable=len(written) < len(shards) or any(form.nullable for form in forms),
        charset=found.charset if found else None,
        column_type=written[0].column_type if len(texts) == 1 and len(set(forms)) == 1 else None,
    )


def _taken(column: str, forms: Iterable[Form], decisions: InForce) -> str | None:
    """The type that an operator took, if it was taken for the types that the shards have now."""
    found = decisions.taken.get(column)
    if found is None:
        return None
    decision, among = found
    types = {form.type for form in forms}
    return decision.value if len(types) > 1 and types <= {*among, decision.value} else None


def _is_taken(change: Change, shards: Sequence[Shard], decisions: InForce) -> bool:
    if change.kind is not ChangeKind.MODIFY:
        return False
    forms = [one.forms[change.column] for one in shards if change.column in one.forms]
    return _taken(change.column, forms, decisions) is not None


def _state(found: LogicalSchema, existing_differ: bool) -> State:
    open_changes = [one for one in found.changes if one not in found.decided]
    accepted = found.decisions.accepted
    if open_changes and (accepted is None or accepted.value != found.difference):
        is_conflict = any(one.is_conflict for one in open_changes)
        return State.CONFLICT if is_conflict else State.CONVERGING
    return State.ACCEPTED if existing_differ else State.EQUAL


def _differ(shards: Sequence[Shard]) -> bool:
    return bool(changes_of(shards, _union(shards)))


def _decision_json(one: Decision) -> dict[str, Any]:
    return {"decision": str(one), "by": one.by, "why": one.why, "ts_ms": one.ts_ms}


# The changes that some shards of a logical table have and others lack.
#
# Invariant: the newest change counts: the form that a shard got last is the form that the other
# shards lack. If no shard changed anything, shards lack what the union of all shards has.


T = TypeVar("T")


class ChangeKind(Enum):
    """The kinds of changes."""

    ADD = "add"
    DROP = "drop"
    MODIFY = "modify"
    RENAME = "rename"
    KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change, and the shards that have it or lack it."""

    kind: ChangeKind
    column: str
    """In lower case; empty for a change of the key."""
    to: str
    """The new form, name or key, as text; empty for a dropped column."""
    done: tuple[ShardName, ...]
    lacking: tuple[ShardName, ...]
    forms: tuple[str, ...]
    """The different forms or keys among the shards, as text."""
    is_conflict: bool

    @property
    def identity(self) -> str:
        """The difference as text, whichever shards have it."""
        kind = ChangeKind.ADD if self.kind is ChangeKind.DROP else self.kind
        to = self.to if kind is ChangeKind.RENAME else ""
        return "\0".join((kind.value, self.column, to, *self.forms))

    def __str__(self) -> str:
        match self.kind:
            case ChangeKind.KEY:
                return f"key ({self.to})"
            case ChangeKind.RENAME | ChangeKind.MODIFY:
                return f"{self.kind.value} {self.column} to {self.to}"
        return f"{self.kind.value} {self.column} {self.to}".rstrip()


def changes_of(shards: Sequence[Shard], columns: Iterable[str]) -> list[Change]:
    """All differences of the shards, by column in the given order; columns are in lower case."""
    renames = list(_renames(shards))
    known = {name for one in renames for name in (one.column, one.to)}
    found = [*renames]
    for column in columns:
        if column not in known:
            found += _of_column(shards, column)
    return [*found, *_of_key(shards)]


def _renames(shards: Sequence[Shard]) -> Iterator[Change]:
    """Columns that some shards renamed, and that other shards still have by the earlier name."""
    seen = set()
    for shard in shards:
        for name, origins in sorted(shard.former.items()):
            for origin in sorted(origins - shard.forms.keys()):
                if (origin, name) in seen:
                    continue
                seen.add((origin, name))
                lacking = [one for one in shards if origin in one.forms and name not in one.forms]
                if lacking:
                    yield Change(
                        kind=ChangeKind.RENAME,
                        column=origin,
                        to=name,
                        done=_names(one for one in shards if name in one.forms),
                        lacking=_names(lacking),
                        forms=(),
                        is_conflict=True,
                    )


def _of_column(shards: Sequence[Shard], column: str) -> Iterator[Change]:
    having = [one for one in shards if column in one.forms]
    forms = [one.forms[column] for one in having]
    joined = joined_form(forms)
    if len(having) < len(shards):
        is_there = _newest(
            shards,
            lambda one: column in one.forms,
            {one.name: one.moved_ms.get(column) for one in shards},
        )
        added = True if is_there is None else is_there
        yield Change(
            kind=ChangeKind.ADD if added else ChangeKind.DROP,
            column=column,
            to=str(joined or forms[0]) if added else "",
            done=_names(one for one in shards if (column in one.forms) is added),
            lacking=_names(one for one in shards if (column in one.forms) is not added),
            forms=(),
            is_conflict=False,
        )
    if len(set(forms)) > 1:
        newest = _newest(
            having,
            lambda one: one.forms[column],
            {one.name: one.changed_ms.get(column) for one in having},
        )
        to = newest or joined or _most_frequent(forms)
        yield Change(
            kind=ChangeKind.MODIFY,
            column=column,
            to=str(to),
            done=_names(one for one in having if one.forms[column] == to),
            lacking=_names(one for one in having if one.forms[column] != to),
            forms=_texts(forms),
            is_conflict=joined is None,
        )


def _of_key(shards: Sequence[Shard]) -> Iterator[Change]:
    keys = [one.key for one in shards]
    if len(set(keys)) < 2:
        return
    newest = _newest(shards, lambda one: one.key, {one.name: one.key_changed_ms for one in shards})
    to = _most_frequent(keys) if newest is None else newest
    yield Change(
        kind=ChangeKind.KEY,
        column="",
        to=", ".join(to),
        done=_names(one for one in shards if one.key == to),
        lacking=_names(one for one in shards if one.key != to),
        forms=_texts(", ".join(key) for key in keys),
        is_conflict=True,
    )


def _newest(
    shards: Collection[Shard], value: Callable[[Shard], T], times: Mapping[ShardName, int | None]
) -> T | None:
    """The value of the shard that changed it last; None if no shard changed it."""
    moved = [(time, one.name, one) for one in shards if (time := times[one.name]) is not None]
    return value(max(moved)[2]) if moved else None


def _most_frequent(values: Iterable[T]) -> T:
    """The most frequent value; among equally frequent values, the first by its text."""
    counts = Counter(values)
    return min(counts, key=lambda one: (-counts[one], str(one)))


def _names(shards: Iterable[Shard]) -> tuple[ShardName, ...]:
    return tuple(one.name for one in shards)


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({str(one) for one in values}))


# The joined form of a column, which contains all of the column's forms.
#
# Invariant: no type is invented. Types are joined only if one of them contains all others.


_CONTAINED = (Relation.SAME, Relation.WIDER)


def joined_form(forms: Iterable[Form]) -> Form | None:
    """The form that holds all values of these forms; None if types or character sets cannot be joined."""
    found = sorted(set(forms), key=str)
    widest = joined_type({form.type for form in found})
    charset = _charset({form.charset for form in found if form.charset is not None})
    if widest is None or charset is None:
        return None
    return Form(widest, any(form.nullable for form in found), charset or None)


def joined_type(types: Iterable[str]) -> str | None:
    """The type among these that holds all values of the other types in the same form; None without one."""
    ordered = sorted(set(types))
    return next((one for one in ordered if contains_all(one, ordered)), None)


@lru_cache(maxsize=10_000)
def is_understood(type_text: str) -> bool:
    """Whether a type can be compared with others; a type that is not known can, by its name."""
    try:
        relation(_kind(type_text), _kind(type_text))
    except (LookupError, ValueError):
        return False
    return True


def contains_all(wide: str, types: Iterable[str]) -> bool:
    """Whether a type holds all values of these types in the same form."""
    return all(relation(_kind(one), _kind(wide)) in _CONTAINED for one in types)


def _kind(type_text: str) -> ValueKind:
    return kind_of(Column(name="", type=type_text, nullable=True, charset=None))


def _charset(charsets: set[str]) -> str | None:
    """The character set that contains all of these; empty without any, None if no set contains all."""
    if not charsets:
        return ""
    ordered = sorted(charsets)
    return next(
        (
            one
            for one in ordered
            if all(charset_relation(other, one) in _CONTAINED for other in ordered)
        ),
        None,
    )
