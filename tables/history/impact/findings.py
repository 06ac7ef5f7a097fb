"""The consequences of a change of a table's columns and key, as subscribers see them.

Invariant: columns are matched by name and by the renames of the statement. If the renames are not known,
a removed column and an added column with the same neighbour and definition count as a rename.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from connectors.mysql.charsets import lowered
from connectors.mysql.ddl.definition import Column, Table
from connectors.mysql.schema.table_map_key import row_key
from tables.history.impact.type_change import (
    Relation,
    charset_relation,
    kind_of,
    relation,
    wire_type,
)
from wire.records import COLUMN_GENERATED
from wire.warehouse_types import OWN_COLUMNS, warehouse_type, widened

# One consequence of a table change for its subscribers.
#
# Invariant: `kind` and `severity` are for programs and stay as they are; the sentences are for
# operators.


class Severity(Enum):
    """The severity of a finding."""

    HARMLESS = "harmless"
    """No effect on a subscriber that ignores unknown fields."""
    CAREFUL = "careful"
    """To be checked first: a subscriber may need preparation, or keeps values that the source no
    longer has."""
    BREAKING = "breaking"
    """A subscriber that needs the removed or changed data fails or produces wrong results."""

    @property
    def rank(self) -> int:
        """Greater is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One consequence, its severity, and its effects on topic and warehouse."""

    kind: str
    severity: Severity
    column: str | None = None
    """By its new name, if it has one."""
    old: str | None = None
    """The old type, name or key."""
    new: str | None = None
    consumers: str = ""
    """The effect on readers of the topic."""
    warehouse: str = ""
    """The effect in the sink."""
    warehouse_columns: tuple[str, ...] = ()
    """The affected columns of the warehouse's table."""


# The impact of a change on the key of a table's records.
#
# Invariant: the key is the one in the binlog: the primary key, or the unique key used in its
# place.


_ANOTHER_KEY = (
    "The same row has another key: it may be in another partition, and compaction keeps the "
    "old record too."
)


def key_findings(old: Table, new: Table, values: Mapping[str, Relation]) -> Iterator[Finding]:
    """Yield the differences in keys and, without a key, in how rows are identified.

    ``values``: the relation of masked columns' values, which their types do not show.
    """
    before, after = row_key(old), row_key(new)
    if before != after:
        yield _key_changed(before, after)
    elif before:
        yield from _of_columns(old, new, after, values)
    elif _shape(old) != _shape(new):
        yield _KEYLESS


def _key_changed(before: Sequence[str], after: Sequence[str]) -> Finding:
    consumers = {
        (True, False): "Records had no key and were in partition 0; now they have one.",
        (
            False,
            True,
        ): "Records no longer have a key, and all are in partition 0, without tombstones.",
    }.get(
        (not before, not after),
        _ANOTHER_KEY,
    )
    same = sorted(map(str.lower, before)) == sorted(map(str.lower, after))
    return Finding(
        kind="key changed",
        severity=Severity.BREAKING,
        old=_listed(before),
        new=_listed(after),
        consumers=consumers,
        warehouse="Nothing: the columns are the same."
        if same
        else "The table waits in the sink with KeyChanged, until it is reloaded there.",
        warehouse_columns=tuple(after),
    )


def _of_columns(
    old: Table, new: Table, key: Sequence[str], values: Mapping[str, Relation]
) -> Iterator[Finding]:
    before, after = ({c.name: c for c in table.columns} for table in (old, new))
    for name in key:
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            continue
        found = values.get(name) or relation(kind_of(one), kind_of(other))
        if found is Relation.OTHER_FORM:
            yield Finding(
                kind="key written otherwise",
                severity=Severity.BREAKING,
                column=name,
                old=one.type if one.type != other.type else None,
                new=other.type if one.type != other.type else None,
                consumers=_ANOTHER_KEY,
                warehouse="Existing rows may not be found by their keys; reload the table.",
                warehouse_columns=(name,),
            )
        elif one.collation != other.collation and other.collation is not None:
            yield Finding(
                kind="key collation changed",
                severity=Severity.CAREFUL,
                column=name,
                old=one.collation,
                new=other.collation,
                consumers="Keys that were one to the source may be two, or two one; to Kafka they are text.",
                warehouse="Nothing: keys are compared as text.",
                warehouse_columns=(name,),
            )


def _listed(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if key else "none"


def _shape(table: Table) -> list[tuple[str, str]]:
    return [(lowered(column.name), column.type) for column in table.columns]


_KEYLESS = Finding(
    kind="rows without a key",
    severity=Severity.BREAKING,
    consumers="Records have no key; a reader that finds rows by all their columns does not find existing ones.",
    warehouse="Existing rows no longer match the images that delete them; reload the table.",
)


_VALUE = re.compile(r"\bDEFAULT\b(?!\s+NULL\b)|\bAUTO_INCREMENT\b", re.IGNORECASE)


def known_renames(old: Table, new: Table, stated: Mapping[str, str] | None) -> dict[str, str]:
    """The old names of renamed columns with their new names; guessed if no statement is given."""
    if stated is None:
        stated = dict(_guessed(old, new))
    spelled, after = {lowered(name): name for name in _by_name(old)}, _by_name(new)
    return {
        spelled[lowered(a)]: b for a, b in stated.items() if lowered(a) in spelled and b in after
    }


def column_findings(
    old: Table,
    new: Table,
    renames: Mapping[str, str],
    values: Mapping[str, Relation],
    *,
    recomputed: Container[str] = (),
    existing: bool = True,
) -> Iterator[Finding]:
    """Yield the differences; unless ``existing``, the table has no rows yet.

    ``renames``: from old to new names. ``values``: by new name, the relation of masked columns' values to their
    earlier values; for other columns the relation follows from the types. ``recomputed``: the new names of
    generated columns that are recomputed.
    """
    before, after = _by_name(old), _by_name(new)
    known = {a: b for a, b in renames.items() if a != b}
    taken = set(known.values())
    for name, column in before.items():
        if name in known:
            yield from _renamed(column, after[known[name]], values, recomputed)
        elif name in after and name not in taken:
            yield from _changed(column, after[name], values, recomputed)
        else:
            yield _removed(column)
    for name, column in after.items():
        if (name not in before or name in known) and name not in taken:
            yield from _added(column, existing=existing)
    if _order(before, after) != _order(after, before):
        yield _REORDERED


def _by_name(table: Table) -> dict[str, Column]:
    return {column.name: column for column in table.columns}


def _order(one: Mapping[str, Column], other: Mapping[str, Column]) -> list[str]:
    return [name for name in one if name in other]


def _guessed(old: Table, new: Table) -> Iterator[tuple[str, str]]:
    """Yield removed columns with the added columns that have the same neighbour and definition."""
    removed, added = _between(old, new), _between(new, old)
    for previous, names in removed.items():
        others = added.get(previous, [])
        if len(names) == len(others):
            for one, other in zip(names, others, strict=True):
                if replace(one, name="") == replace(other, name=""):
                    yield one.name, other.name


def _between(table: Table, other: Table) -> dict[str, list[Column]]:
    """The columns missing in the other table, by the common column before them."""
    stays = {column.name for column in other.columns}
    found: dict[str, list[Column]] = {}
    previous = ""
    for column in table.columns:
        if column.name in stays:
            previous = column.name
        else:
            found.setdefault(previous, []).append(column)
    return found


def _removed(column: Column) -> Finding:
    return Finding(
        kind="column removed",
        severity=Severity.BREAKING,
        column=column.name,
        old=column.type,
        consumers="Records have no such field any more.",
        warehouse="The column stays; it is NULL in rows that are written from now on.",
        warehouse_columns=(column.name,),
    )


def _added(column: Column, *, existing: bool) -> Iterator[Finding]:
    if (refused := _refused(column)) is not None:
        yield refused
        return
    wanted = warehouse_type(wire_type(column.type))
    if not existing:
        return
    filled = not column.nullable or column.generated or _VALUE.search(column.definition)
    yield Finding(
        kind="column added",
        severity=Severity.CAREFUL if filled else Severity.HARMLESS,
        column=column.name,
        new=_described(column),
        consumers="Records have a new field."
        + (" Existing rows got a value in it, of which no record is published." if filled else ""),
        warehouse=f"The column is added as {wanted}; {_in_existing(column) if filled else _NULL}",
        warehouse_columns=(column.name,),
    )


_NULL = "it is NULL in existing rows, as at the source."


def _in_existing(column: Column) -> str:
    """A new column's value in the warehouse's existing rows, to which MySQL gave a value, as a sentence."""
    if not column.initial:
        return (
            "existing rows get what MySQL gives them, or NULL where that differs from row to row."
        )
    if "unknown" in json.loads(column.initial):
        return "it is NULL in existing rows. At the source it is not, but the value is not known."
    return "existing rows get the value that MySQL gives them."


def _refused(column: Column) -> Finding | None:
    if column.name.lower() in OWN_COLUMNS:
        error, why = "ReservedName", "it has a column of its own by that name"
    elif warehouse_type(wire_type(column.type)) is None:
        error, why = "UnsupportedType", f"it has no type for {column.type}"
    else:
        return None
    return Finding(
        kind="column refused",
        severity=Severity.BREAKING,
        column=column.name,
        new=column.type,
        consumers="Records have the field.",
        warehouse=f"The table waits in the sink with {error}: {why}.",
        warehouse_columns=(column.name,),
    )


def _renamed(
    old: Column, new: Column, values: Mapping[str, Relation], recomputed: Container[str]
) -> Iterator[Finding]:
    same = lowered(old.name) == lowered(new.name)
    yield Finding(
        kind="column renamed",
        severity=Severity.BREAKING,
        column=new.name,
        old=old.name,
        new=new.name,
        consumers=f"Records have a field {new.name} in place of {old.name}.",
        warehouse="The column stays: names that differ by case alone are one."
        if same
        else "The column gets the new name, and keeps its values.",
        warehouse_columns=(old.name,) if same else (old.name, new.name),
    )
    if (refused := _refused(new)) is not None:
        yield refused
    yield from _changed(replace(old, name=new.name), new, values, recomputed)


def _changed(
    old: Column, new: Column, values: Mapping[str, Relation], recomputed: Container[str]
) -> Iterator[Finding]:
    found, masked = relation(kind_of(old), kind_of(new)), values.get(new.name)
    if found is not Relation.SAME:
        yield _retyped(old, new, found, is_null=masked is not None)
    elif masked not in (None, Relation.SAME, Relation.WIDER):
        yield _masked(new, masked)
    letters = charset_relation(old.charset, new.charset)
    if letters is not Relation.SAME and found is not Relation.OTHER_FORM:
        yield _recoded(old, new, letters)
    if old.nullable != new.nullable:
        yield _may_be_null(new) if new.nullable else _never_null(new)
    if new.generated and new.name in recomputed:
        yield _generated(new)


_KINDS = {Relation.WIDER: "column widened", Relation.NARROWER: "column narrowed"}
_MEANINGS = {
    Relation.WIDER: "Values may be greater or longer than they could be.",
    Relation.NARROWER: "Existing rows may have been truncated; no record shows it.",
    Relation.SHIFTED: (
        "New values become possible; existing values that no longer are were truncated. No record shows which."
    ),
    Relation.OTHER_FORM: (
        "Values are written in another form. Existing rows changed with it; no record shows it."
    ),
}


def _masked(new: Column, found: Relation) -> Finding:
    return Finding(
        kind="masked values changed",
        severity=Severity.BREAKING,
        column=new.name,
        consumers=f"The type stays; what it is masked from changes. {_MEANINGS[found]}",
        warehouse="The column stays. Its existing rows have what was masked from their earlier values.",
        warehouse_columns=(new.name,),
    )


def _retyped(old: Column, new: Column, found: Relation, *, is_null: bool) -> Finding:
    """``is_null``: a mask makes all values null; a mask with values has a type that does not change."""
    does, refuses = _warehouse(old, new)
    if not refuses and not is_null and found is not Relation.WIDER:
        does += (
            " Values that MySQL changes are changed alike, or the table waits with ValuesChanged."
        )
    severity = Severity.BREAKING
    if not refuses and is_null:
        severity = Severity.HARMLESS
    elif not refuses and found is Relation.WIDER:
        severity = Severity.CAREFUL
    return Finding(
        kind=_KINDS.get(found, "column changed"),
        severity=severity,
        column=new.name,
        old=old.type,
        new=new.type,
        consumers="It is always NULL, and of another type." if is_null else _MEANINGS[found],
        warehouse=does,
        warehouse_columns=(new.name,),
    )


def _warehouse(old: Column, new: Column) -> tuple[str, bool]:
    """The sink's handling of a type change, and whether it refuses."""
    held, wanted = (warehouse_type(wire_type(column.type)) for column in (old, new))
    if held is None or wanted is None:
        return (
            f"The table waits in the sink with UnsupportedType: it has no type for {new.type}.",
            True,
        )
    kept = widened(held, wanted)
    if kept is None:
        return (
            f"The table waits in the sink with TypeConflict: {held} cannot become {wanted}.",
            True,
        )
    if kept == held:
        return f"The column stays {held}.", False
    return f"The column is widened from {held} to {kept}.", False


def _recoded(old: Column, new: Column, letters: Relation) -> Finding:
    loses = letters is not Relation.WIDER
    return Finding(
        kind="character set changed",
        severity=Severity.BREAKING if loses else Severity.HARMLESS,
        column=new.name,
        old=old.charset,
        new=new.charset,
        consumers="Characters that it lacks were lost from existing rows; no record shows it."
        if loses
        else "Text may have more characters; in records it is UTF-8 in any case.",
        warehouse="The column stays string.",
        warehouse_columns=(new.name,),
    )


def _may_be_null(column: Column) -> Finding:
    return Finding(
        kind="column may be null",
        severity=Severity.CAREFUL,
        column=column.name,
        old="NOT NULL",
        new="NULL",
        consumers="The field may be null.",
        warehouse="Nothing: every column may be NULL there.",
        warehouse_columns=(column.name,),
    )


def _never_null(column: Column) -> Finding:
    return Finding(
        kind="column is never null",
        severity=Severity.CAREFUL,
        column=column.name,
        old="NULL",
        new="NOT NULL",
        consumers="The field is no longer null. Existing rows that were null got a value; no record shows it.",
        warehouse="Nothing: every column may be NULL there.",
        warehouse_columns=(column.name,),
    )


def _generated(column: Column) -> Finding:
    return Finding(
        kind=COLUMN_GENERATED,
        severity=Severity.CAREFUL,
        column=column.name,
        new=_described(column),
        consumers="Its values are recomputed. Those of existing rows changed; no record shows it.",
        warehouse="The column stays.",
        warehouse_columns=(column.name,),
    )


def _described(column: Column) -> str:
    words: Sequence[str] = (column.type, "" if column.nullable else "NOT NULL", column.definition)
    return " ".join(word for word in words if word)


_REORDERED = Finding(
    kind="columns reordered",
    severity=Severity.HARMLESS,
    consumers="Fields come in another order; they are known by their names.",
    warehouse="Nothing: the order of its columns stays.",
)
