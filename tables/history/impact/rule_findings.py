"""A table's definition as its subscribers see it: the published columns with their names and types in
records, and the records' key.

Invariant: the route and the table alone decide, as they do for rows (``MaskedColumns``, ``CapturedTable``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from connectors.mysql.ddl.definition import Column, Index, Table
from connectors.mysql.schema.hidden_columns import row_times
from connectors.mysql.schema.table_map_key import row_key
from tables.history.impact.findings import Finding, Severity
from tables.history.impact.type_change import (
    Relation,
    always_holds,
    charset_relation,
    exact_length,
    kind_of,
    relation,
    wire_type,
)
from tables.rules.masking import MaskingRule
from tables.rules.routes.routes import Route
from tables.rules.routes.rule_faults import table_faults
from wire.table_version import Column as PublishedColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What is published of a table."""

    table: Table
    names: Mapping[str, str]
    """The published names of columns, by the columns' own names."""
    masked: Mapping[str, tuple[MaskingRule, Column]] = field(default_factory=dict)
    """By published name, the rule of a masked column, and the column itself."""

    def renames(self, new: Published, renames: Mapping[str, str]) -> dict[str, str]:
        """The renames of columns that are published before and after, by their published names."""
        return {
            self.names[old]: new.names[name]
            for old, name in renames.items()
            if old in self.names and name in new.names
        }

    def values(self, new: Published, renames: Mapping[str, str]) -> dict[str, Relation]:
        """By new name, the relation of each masked column's values to its earlier values.

        ``renames``: of published names. A column that had no rule or another rule is omitted.
        """
        olds = {to: old for old, to in renames.items()}
        found: dict[str, Relation] = {}
        for name, (rule, column) in new.masked.items():
            before = self.masked.get(olds.get(name, name))
            if before is not None and before[0] == rule:
                found[name] = _masked_relation(rule, before[1], column)
        return found


def published(table: Table, route: Route, renames: Mapping[str, str] | None = None) -> Published:
    """What is published of a table.

    ``renames``: the renames of the statement that made the table, from old to new names. A rule for a renamed
    column is impossible, since the column is gone. Here it is applied to the new name, as it will be once the
    mapping has that name.
    """
    if route.mapped is None:
        return Published(table=table, names={one.name: one.name for one in table.columns})
    called = _called(table, route, renames or {})
    listed = {name.lower() for name in route.mapped.rules.columns}
    actions = route.mapped.rules.column_actions
    dropped = {one.column.lower() for one in actions if one.kind.removes}
    renamed = route.mapped.rules.renames
    taken = {renamed[known].lower() for known in called.values() if known in renamed}
    names: dict[str, str] = {}
    columns: list[Column] = []
    masked: dict[str, tuple[MaskingRule, Column]] = {}
    for column in table.columns:
        known = called[column.name]
        name = renamed.get(known, column.name)
        # If two columns would have the same name, the table is refused; the renamed column is shown.
        is_taken = known not in renamed and name.lower() in taken
        if known in dropped or is_taken or (listed and known not in listed):
            continue
        names[column.name] = name
        rule = route.column_rules.get(known)
        if rule is not None:
            masked[name] = rule, column
        columns.append(replace(column if rule is None else _masked(column, rule), name=name))
    key = tuple(names.get(name, name) for name in _key(table, route, called))
    indexes = (Index(name="PRIMARY", columns=key, unique=True),) if key else ()
    shown = replace(table, columns=tuple(columns), indexes=indexes)
    return Published(table=shown, names=names, masked=masked)


def rule_findings(
    old: Table | None, new: Table, route: Route, renames: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a change's effects on rules: rules that no longer fit, and values that are no longer masked."""
    known = set() if old is None else set(rule_faults(old, route))
    faults = [fault for fault in rule_faults(new, route) if fault not in known]
    if faults:
        yield Finding(
            kind="rule impossible",
            severity=Severity.BREAKING,
            new="; ".join(faults),
            consumers="The table is quarantined with RuleImpossible: its records end until the mapping is "
            "corrected. What else is stated of the change holds from then on.",
            warehouse="Until then the table stays with the rows that it has.",
        )
    if old is None or route.mapped is None:
        return
    hidden = {one.column.lower() for one in route.mapped.rules.column_actions if one.kind.hides}
    after, called = published(new, route, renames), _called(new, route, renames)
    for name, to in renames.items():
        if name.lower() in hidden and called[to] not in hidden and to in after.names:
            yield _unmasked(name, after.names[to])


def rule_faults(table: Table, route: Route) -> list[str]:
    """Return why the rules of a table's route cannot be applied to it, before any row shows it."""
    types = {column.name: wire_type(column.type) for column in table.columns}
    types |= dict.fromkeys(row_times(table), "timestamp(6)")
    called = {name: name.lower() for name in types}
    return table_faults(route, types, tuple(_key(table, route, called)))


def _called(table: Table, route: Route, renames: Mapping[str, str]) -> dict[str, str]:
    """By each column's name, the name in lower case by which rules know the column."""
    called = {column.name: column.name.lower() for column in table.columns}
    there, ruled = set(called.values()), set[str]()
    if route.mapped is not None:
        rules = route.mapped.rules
        named = (*rules.columns, *rules.key, *(one.column for one in rules.column_actions))
        ruled = {name.lower() for name in named}
    for old, to in renames.items():
        if old.lower() in ruled - there and to.lower() not in ruled:
            called[to] = old.lower()
    return called


def _key(table: Table, route: Route, called: Mapping[str, str]) -> Iterable[str]:
    """The columns of the records' key, as far as the table has them."""
    if route.key_columns is None:
        return row_key(table)
    own = {known: name for name, known in called.items()}
    return [own[name.lower()] for name in route.key_columns if name.lower() in own]


def _masked(column: Column, rule: MaskingRule) -> Column:
    """The column that holds the rule's replacements."""
    plain = PublishedColumn(
        name=column.name, type=column.type, nullable=column.nullable, charset=column.charset
    )
    made = rule.column(plain)
    found = replace(column, type=made.type, nullable=made.nullable, charset=made.charset)
    if rule.reads != 0:
        return found
    # Values that the source computes, or gives to rows by default, are replaced too.
    found = replace(found, generated=None)
    return found if rule(None) is not None else replace(found, charset=None, definition="")


def _masked_relation(rule: MaskingRule, old: Column, new: Column) -> Relation:
    """The relation of replacements to the same rows' earlier replacements; each depends on its value alone."""
    if rule.reads == 0:
        return Relation.SAME
    one, other = kind_of(old), kind_of(new)
    found = relation(one, other)
    if rule.reads is not None:
        return Relation.SAME if always_holds(other, rule.reads) else found
    # The value's text is replaced: JSON has 5 for an INT and 5.0 for a DOUBLE, and a VARCHAR has 5 too.
    if one.base != other.base and _FLOATS & {one.base, other.base}:
        return Relation.OTHER_FORM
    length = exact_length(one)
    if length is not None and always_holds(other, 0) and "zerofill" not in old.type:
        return Relation.SAME if always_holds(other, length) else Relation.NARROWER
    letters = charset_relation(old.charset, new.charset)
    return found if letters in _KEEPS or found not in _KEEPS else letters


_FLOATS = {"float", "double"}
_KEEPS = (Relation.SAME, Relation.WIDER)


def _unmasked(old: str, new: str) -> Finding:
    return Finding(
        kind="column unmasked",
        severity=Severity.BREAKING,
        column=new,
        old=old,
        new=new,
        consumers=f"Its values, which the mapping masked under the name {old}, are published as they are. Mask "
        f"{new} by a version of the mapping first.",
        warehouse="They are in the warehouse as they are.",
        warehouse_columns=(new,),
    )
