"""Online schema changes: the shadow tables of gh-ost and similar tools, and their cut-over.

Invariant: a name is a shadow only if the table that it belongs to exists; a user's table with a similar
name is not a shadow. Only names that no user would choose are shadows without such a table. The creation and
removal of a shadow are noise. A shadow that replaces its table is that table, altered. Every other effect of a
statement is returned unchanged.
Sources: gh-ost's go/base/context.go; pt-online-schema-change; Spirit's pkg/utils/tablename.go;
Facebook's OnlineSchemaChange, core/lib/constant.py; LHM's lib/lhm/migration.rb; Vitess'
go/vt/schema/name.go and tablegc.go; for Alibaba Cloud's DMS, published binlogs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain

from connectors.mysql.ddl.definition import Change, DatabaseChange, Table, TableChange, TableName


class Role(Enum):
    """A shadow's role for its table."""

    GHOST = "ghost"
    """The shadow is being filled to replace the table."""
    OLD = "old"
    """The shadow was the table before the replacement."""
    LOG = "log"
    """The shadow is the tool's own log table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowRule:
    """The names that one tool uses."""

    tool: str
    role: Role
    pattern: re.Pattern[str]
    """Matches the whole name. The group ``table`` is the table's name; without it, every match is a shadow."""
    tail: str | None = None
    """The suffix after the table's name, for tools that cut the end of a shadow's name that is too long.

    None for tools that cut the table's name within it."""
    padded: bool = False
    """Whether more underscores may precede the table's name, because a shorter name was taken."""

    def tables(self, name: str) -> Iterator[str]:
        """The tables that a name may be a shadow of."""
        found = self.pattern.fullmatch(name)
        table = found["table"] if found and "table" in found.groupdict() else ""
        while table:
            yield table
            table = table[1:] if self.padded and table[0] == "_" else ""

    def may_be_cut(self, name: str, table: str) -> bool:
        """Whether a name of the maximum length may be the cut name of a shadow of ``table``."""
        if self.tail is None:
            return any(table.startswith(part) for part in self.tables(name))
        head = self.pattern.pattern.partition("(?P<table>")[0]
        if (found := re.match(head, name, re.IGNORECASE)) is None:
            return False
        rest = name[found.end() :].lstrip("_" if self.padded else "")
        whole = f"{table.lstrip('_') if self.padded else table}{self.tail}"
        return bool(rest) and whole.startswith(rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """The table and the role of a shadow's name."""

    tool: str
    role: Role
    of: TableName | None
    """None if the name does not contain the table's name."""


def _rule(
    tool: str, role: Role, pattern: str, *, tail: str | None = None, padded: bool = False
) -> ShadowRule:
    compiled = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return ShadowRule(tool=tool, role=role, pattern=compiled, tail=tail, padded=padded)


_TABLE = "(?P<table>.+)"
_OSC = "pt-online-schema-change or Spirit"
_UUID = "[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}"

RULES: tuple[ShadowRule, ...] = (
    _rule("gh-ost", Role.GHOST, f"_{_TABLE}_gho"),
    _rule("gh-ost", Role.LOG, f"_{_TABLE}_gh[ck]"),
    _rule("gh-ost", Role.OLD, f"_{_TABLE}_del"),
    _rule("gh-ost", Role.OLD, rf"_{_TABLE}_\d{{14}}_del"),
    _rule("gh-ost", Role.OLD, f"_{_TABLE}_rev_del"),
    _rule("gh-ost", Role.OLD, rf"_{_TABLE}_\d{{14}}_rev_del"),
    _rule(_OSC, Role.GHOST, f"_{_TABLE}_new", padded=True),
    _rule(_OSC, Role.OLD, f"_{_TABLE}_old", padded=True),
    _rule("pt-online-schema-change", Role.GHOST, f"_{_TABLE}_new", tail="_new", padded=True),
    _rule("pt-online-schema-change", Role.OLD, f"_{_TABLE}_old", tail="_old", padded=True),
    _rule("pt-online-schema-change", Role.OLD, f"(?:[A-Z0-9]{{6}}_)+{_TABLE}_old", padded=True),
    _rule("Spirit", Role.LOG, f"_{_TABLE}_chkpnt"),
    _rule("Spirit", Role.OLD, rf"_{_TABLE}_old_\d{{8}}_\d{{6}}"),
    _rule("Spirit", Role.LOG, "_spirit_(?:sentinel|(?:move_|sync_)?checkpoint)"),
    _rule("OnlineSchemaChange", Role.GHOST, f"(?:__osc_new_|n!){_TABLE}"),
    _rule("OnlineSchemaChange", Role.LOG, f"(?:__osc_chg_|c!){_TABLE}"),
    _rule("OnlineSchemaChange", Role.OLD, f"(?:__osc_old_|o!){_TABLE}"),
    _rule("OnlineSchemaChange", Role.GHOST, "__osc_new_online_schema_change_temp_tbl"),
    _rule("OnlineSchemaChange", Role.LOG, "__osc_chg_online_schema_change_temp_tbl"),
    _rule("OnlineSchemaChange", Role.OLD, "__osc_old_online_schema_change_temp_tbl"),
    _rule("LHM", Role.GHOST, f"lhmn_{_TABLE}"),
    _rule("LHM", Role.OLD, rf"lhma_\d{{4}}(?:_\d\d){{5}}(?:_\d{{3}})?_{_TABLE}", tail=""),
    _rule("DMS", Role.GHOST, rf"tp_\d+_ogt_{_TABLE}"),
    _rule("DMS", Role.LOG, rf"tp_\d+_ogl_{_TABLE}"),
    _rule("DMS", Role.OLD, rf"tp_\d+_del_{_TABLE}"),
    _rule("Vitess", Role.GHOST, r"_vt_vrp_[0-9a-f]{32}_\d{14}_"),
    _rule("Vitess", Role.OLD, r"_vt_(?:hld|prg|evc|drp)_[0-9a-f]{32}_\d{14}_"),
    _rule("Vitess", Role.OLD, r"_vt_(?:HOLD|PURGE|EVAC|DROP)_[0-9a-f]{32}_\d{14}"),
    _rule("Vitess", Role.GHOST, rf"_{_UUID}_\d{{14}}_(?:vrepl|gho|new)"),
    _rule("Vitess", Role.OLD, rf"_{_UUID}_\d{{14}}_del"),
    _rule("Vitess", Role.LOG, rf"_{_UUID}_\d{{14}}_ghc"),
)
"""The rules of known tools; if several match, the first rule whose table exists applies."""

MAX_NAME = 64
"""The maximum length of a name in characters; tools cut longer names."""


def rule(pattern: str, role: Role) -> ShadowRule:
    """A rule defined by an operator; raise ValueError for an invalid expression."""
    try:
        return _rule("a rule of the settings", role, pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


class ShadowRules:
    """Rules, and patterns of ``database.table`` for tables that are never shadows."""

    def __init__(self, rules: Iterable[ShadowRule] = RULES, *, never: Iterable[str] = ()) -> None:
        self._rules = tuple(rules)
        self._never = [re.compile(each, re.IGNORECASE | re.DOTALL) for each in never]

    def shadow(self, name: TableName, known: Collection[TableName]) -> Shadow | None:
        """Return the existing table that a name is a shadow of; None if the name is not a shadow."""
        for each in self._fitting(name):
            for of in self._tables(each, name, known):
                return Shadow(tool=each.tool, role=each.role, of=of)
        return None

    def fits(self, name: TableName) -> bool:
        """Whether a tool may use this name, even if no table for it is known."""
        return any(True for _ in self._fitting(name))

    def could_shadow(self, name: TableName, table: TableName) -> Shadow | None:
        """Return the role of a name for a table, whether or not the table exists."""
        return self.shadow(name, (table,)) if name != table else None

    def ghost_of(self, name: TableName) -> set[TableName | None]:
        """Return the tables that a name may be a ghost of.

        They include None if the name may be cut, since it may then be a ghost of other tables, too.
        """
        found: set[TableName | None] = set()
        for each in self._fitting(name):
            if each.role is Role.GHOST and "table" in each.pattern.groupindex:
                found.update((name[0], of) for of in each.tables(name[1]))
                found |= {None} if _may_be_cut(name[1]) else set()
        return found

    def _fitting(self, name: TableName) -> Iterator[ShadowRule]:
        if any(each.fullmatch(".".join(name)) for each in self._never):
            return
        cut = _may_be_cut(name[1])
        for each in self._rules:
            if each.pattern.fullmatch(name[1]) or (cut and each.tail is not None):
                yield each

    def _tables(
        self, each: ShadowRule, name: TableName, known: Collection[TableName]
    ) -> Iterator[TableName | None]:
        database, table = name
        if "table" not in each.pattern.groupindex:
            yield None
            return
        for of in each.tables(table):
            if (database, of) in known:
                yield database, of
        if _may_be_cut(table):
            yield from (
                one for one in known
                if one[0] == database and one != name and each.may_be_cut(table, one[1])
            )  # fmt: skip


def _may_be_cut(name: str) -> bool:
    """Whether a name has the maximum length; some tools count bytes."""
    return MAX_NAME in (len(name), len(name.encode()))


class TableNames(Collection[TableName]):
    """Names of tables, with ghosts indexed by the tables that they may be ghosts of."""

    def __init__(self, rules: ShadowRules, names: Iterable[TableName] = ()) -> None:
        self._rules = rules
        self._names: set[TableName] = set()
        self._ghosts: dict[TableName | None, dict[TableName, None]] = {}
        """Ghosts with cut names, which may be of any table, are under None."""
        self.update(names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, name: TableName) -> None:
        """Add a table."""
        if name not in self._names:
            self._names.add(name)
            for of in self._rules.ghost_of(name):
                self._ghosts.setdefault(of, {})[name] = None

    def update(self, names: Iterable[TableName]) -> None:
        """Add these tables."""
        for name in names:
            self.add(name)

    def discard(self, name: TableName) -> None:
        """Remove a table."""
        if name not in self._names:
            return
        self._names.discard(name)
        for of in self._rules.ghost_of(name):
            waiting = self._ghosts.get(of, {})
            waiting.pop(name, None)
            if not waiting:
                self._ghosts.pop(of, None)

    def waiting_tool(self, table: TableName) -> str | None:
        """Return the tool whose ghost is ready to replace a table; None if no ghost is."""
        for name in (*self._ghosts.get(table, ()), *self._ghosts.get(None, ())):
            found = self._rules.could_shadow(name, table)
            if found is not None and found.role is Role.GHOST and found.of == table:
                return found.tool
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineAlter:
    """A table was replaced by its shadow."""

    name: TableName
    old: Table | None
    """None if the old table is no longer known."""
    new: Table
    tool: str
    shadow: TableName
    """The old name of the new table."""
    kept_as: TableName | None = None
    """The current name of the old table; None if it was dropped, now or by an earlier statement."""

    @property
    def change(self) -> TableChange:
        """The equivalent change of an ALTER TABLE."""
        return TableChange(name=self.name, old=self.old, new=self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMovedAway:
    """A table is gone, and its shadow is ready: the first of two steps, or the end of the table."""

    name: TableName
    old: Table
    tool: str
    to: TableName | None
    """None if the table was dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A shadow was created, altered, dropped, or renamed."""

    change: TableChange
    shadow: Shadow


Logical = Change | OnlineAlter | TableMovedAway | Noise


def logical(
    changes: Sequence[Change],
    rules: ShadowRules,
    *,
    known: Collection[TableName],
    before: Callable[[TableName], Table | None],
) -> tuple[Logical, ...]:
    """Return the logical changes of one statement.

    ``known`` are the tables that exist after the statement, preferably as ``TableNames``. ``before`` returns
    the last definition of a name before the statement, even if the table was gone by then.
    """
    return tuple(_Reading(changes, rules, known=known, before=before).logical_changes())


class _Reading:
    def __init__(
        self,
        changes: Sequence[Change],
        rules: ShadowRules,
        *,
        known: Collection[TableName],
        before: Callable[[TableName], Table | None],
    ) -> None:
        self._changes = changes
        self._rules = rules
        self._before = before
        self._after = known
        self._known = _Both(known, changes)
        self._origins, self._ends = _moves(changes)

    def logical_changes(self) -> Iterator[Logical]:
        for change in self._changes:
            if isinstance(change, DatabaseChange):
                yield change
            elif change.renamed_to is not None:
                yield from self._removed(change)
            elif change.renamed_from is not None:
                yield from self._come(change)
            elif (found := self._rules.shadow(change.name, self._known)) is not None:
                yield Noise(change=change, shadow=found)
            elif (tool := self._ready(change)) is not None and change.old is not None:
                yield TableMovedAway(name=change.name, old=change.old, tool=tool, to=None)
            else:
                yield change

    def _removed(self, change: TableChange) -> Iterator[Logical]:
        """A table lost a name by a rename."""
        name, end = change.name, self._ends.get(change.name)
        if end is None or self._rules.could_shadow(name, end) or self._is_replaced(name):
            # The table only passed through this name, or is reported under its new name, or with its shadow.
            return
        shadow = self._rules.could_shadow(end, name)
        if shadow is not None and change.old is not None:
            yield TableMovedAway(name=name, old=change.old, tool=shadow.tool, to=end)
        elif (found := self._rules.shadow(name, self._known)) is not None:
            yield Noise(change=change, shadow=found)
        else:
            yield change

    def _come(self, change: TableChange) -> Iterator[Logical]:
        """A table received a name by a rename, perhaps temporarily."""
        name, origin = change.name, self._origins.get(change.name)
        if origin is None:
            return
        found, (old, kept_as) = self._rules.could_shadow(origin, name), self._replaced(name)
        if found is not None and change.new is not None and old is not None:
            yield OnlineAlter(
                name=name, old=old, new=change.new, tool=found.tool, shadow=origin, kept_as=kept_as
            )
        elif (shadow := self._rules.shadow(name, self._known)) is not None:
            yield Noise(change=change, shadow=shadow)
        else:
            yield change

    def _is_replaced(self, name: TableName) -> bool:
        """Whether a shadow of the table that had this name has it now."""
        origin = self._origins.get(name)
        return origin is not None and self._rules.could_shadow(origin, name) is not None

    def _replaced(self, name: TableName) -> tuple[Table | None, TableName | None]:
        """The table that had a name before, and its current name."""
        for change in self._changes:
            if isinstance(change, TableChange) and change.name == name and change.old is not None:
                return change.old, self._ends.get(name)
        return self._before(name), None

    def _ready(self, change: TableChange) -> str | None:
        """The tool whose shadow is ready to replace a dropped table; None without such a shadow."""
        if change.new is not None:
            return None
        after = self._after
        there = after if isinstance(after, TableNames) else TableNames(self._rules, after)
        return there.waiting_tool(change.name)


class _Both(Collection[TableName]):
    """The tables that exist after a statement, and the tables that the statement touched."""

    def __init__(self, after: Collection[TableName], changes: Sequence[Change]) -> None:
        self._after = after
        named = (change.name for change in changes if isinstance(change, TableChange))
        self._removed = dict.fromkeys(name for name in named if name not in after)

    def __contains__(self, name: object) -> bool:
        return name in self._removed or name in self._after

    def __iter__(self) -> Iterator[TableName]:
        return chain(self._removed, self._after)

    def __len__(self) -> int:
        return len(self._removed) + len(self._after)


def _moves(
    changes: Sequence[Change],
) -> tuple[dict[TableName, TableName], dict[TableName, TableName]]:
    """The first names of renamed tables, by their last names; and the reverse."""
    origins: dict[TableName, TableName] = {}
    for change in changes:
        if isinstance(change, TableChange) and change.renamed_to is not None:
            first = origins.pop(change.name, change.name)
            origins[change.renamed_to] = first
    origins = {last: first for last, first in origins.items() if last != first}
    return origins, {first: last for last, first in origins.items()}
