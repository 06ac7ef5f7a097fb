"""What a report of a trial may show of a record.

Invariant: a value is shown only if its column is masked in neither mapping. A key is shown as published, except
for columns that only the other mapping masks. Statements, and errors that may quote a row, are hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from app.operator.trial.published import STATEMENTS, FieldDifference, Missing
from connectors.errors import AqueductError, MappingError, RowUnreadable, WitnessesDiffer
from connectors.mysql.ddl.definition import TableName
from tables.rules.mapping.rules import RENAME
from tables.rules.routes.routes import Route, Routes
from wire.records import KEY_SHARD

MASKED = "(masked)"
HIDDEN = "(hidden)"
_LONGEST = 60
"""The most characters of a value that are shown."""
_PLAIN_FIELDS = frozenset(
    {
        "op",
        "absent",
        "format",
        "replaced",
        "source.tags",
        "tags",
        "source.logical_db",
        "source.logical_table",
    }
)
"""Fields, other than columns, that contain no value of a row."""
_REST_HIDDEN = "the detail is hidden, since there are masked columns"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownField:
    """A field that differs; a value that may not be shown is replaced by the reason."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class _Masks:
    """The masked columns of one table, by their published names in lower case."""

    either: frozenset[str]
    """The columns that either mapping masks, by all their names in both mappings."""
    old: frozenset[str]
    new: frozenset[str]


_NO_MASKS = _Masks(frozenset(), frozenset(), frozenset())


class ShownValues:
    """What may be shown, by the routes of both mappings."""

    def __init__(self, old: Routes, new: Routes) -> None:
        self._old, self._new = old, new
        self._masks: dict[TableName, _Masks] = {STATEMENTS: _NO_MASKS}
        self._masks_any = old.masks_any or new.masks_any

    def fields(self, table: TableName, found: list[FieldDifference]) -> tuple[ShownField, ...]:
        """Return the names of differing fields, with those values that may be shown."""
        return tuple(self._field(table, one) for one in found)

    def _field(self, table: TableName, one: FieldDifference) -> ShownField:
        if one.is_column:
            instead = MASKED if one.name.lower() in self._of(table).either else ""
        else:
            instead = "" if one.name in _PLAIN_FIELDS and table != STATEMENTS else HIDDEN
        return ShownField(
            name=one.name, old=instead or _text(one.old), new=instead or _text(one.new)
        )

    def key(self, table: TableName, key: bytes | None, *, is_new: bool) -> str | None:
        """Return a record's key as it may be shown; ``is_new`` is whether the record is the new mapping's."""
        if key is None:
            return None
        masks = self._of(table)
        replaced = masks.new if is_new else masks.old
        members = orjson.loads(key)
        shown = {
            name: MASKED
            if name != KEY_SHARD and name.lower() in masks.either - replaced
            else content
            for name, content in members.items()
        }
        return orjson.dumps(shown).decode()

    def reason(self, table: TableName, reason: str) -> str:
        """Return why a row is refused, unless the reason may quote a masked value."""
        return _REST_HIDDEN if reason and self._of(table).either else reason

    def table_reason(self, error: WitnessesDiffer) -> str:
        """Return why a table is quarantined; only the reason of an unreadable row quotes the row."""
        if isinstance(error, RowUnreadable):
            return self.reason(error.name_of_table, error.detail)
        return error.detail

    def error(self, error: AqueductError) -> AqueductError:
        """Return an error of a pipeline, without a detail that may quote a masked value."""
        if not self._masks_any or isinstance(error, MappingError):
            return error
        # The tables that the text may name: names of databases and tables may contain
        # dots too.
        text = str(error.context.get("table", ""))
        dots = [at for at, char in enumerate(text) if char == "."]
        names = [(text[:at], text[at + 1 :]) for at in dots]
        if names and not any(self._of(name).either for name in names):
            return error
        shown = type(error)(_REST_HIDDEN, remedy=error.advice)
        shown.context = error.context
        return shown

    def _of(self, table: TableName) -> _Masks:
        found = self._masks.get(table)
        if found is None:
            found = self._masks[table] = _masks(self._old.of(table), self._new.of(table))
        return found


def _masks(old: Route | None, new: Route | None) -> _Masks:
    """Return the masked columns; a column may be renamed by one mapping and masked by the other."""
    sides = [_actions(old), _actions(new)]
    masked = {name for side in sides for name, (hides, _) in side.items() if hides}
    names = {side[name][1] for side in sides for name in masked if name in side}
    replaced = [frozenset(name for name, (hides, _) in side.items() if hides) for side in sides]
    return _Masks(frozenset(masked | names), *replaced)


def _actions(route: Route | None) -> dict[str, tuple[bool, str]]:
    """Return by column whether its action hides values, and its published name; names in lower case."""
    if route is None or route.mapped is None:
        return {}
    return {
        one.column.lower(): (
            one.kind.hides,
            (one.argument if one.action == RENAME else one.column).lower(),
        )
        for one in route.mapped.rules.column_actions
    }


def _text(value: object) -> str:
    text = repr(value) if isinstance(value, Missing) else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
