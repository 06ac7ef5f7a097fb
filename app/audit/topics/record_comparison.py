"""Comparison of a row's record with its change: form, names, values, key.

Invariant: a difference is reported by the name of its column, never with values, which do not belong in a
report.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.audit.change_store import Change
from app.audit.table_shape import BinlogColumn, Shape, column_of_type, decoder_of
from app.audit.value_comparison import UNTOLD, Same, comparison, unquoted
from connectors.kafka.reading import StoredRecord, partition_of
from tables.history.impact.impact import RouteOf
from tables.history.present_columns import Described
from tables.rules.mapping.row_filter import Predicate, predicate, row_filter
from tables.rules.mapping.rules import Rules
from tables.rules.masking import Hmac, MaskingRule, Redact, Truncate
from tables.rules.routes.routes import Route
from wire.changes import change_key
from wire.records import HEADER_CHANGE_ID, KEY_SHARD


@dataclass(slots=True)
class Columns:
    """The comparison of a table's rows, for one shape and one version of the table."""

    names: tuple[str, ...]
    key: tuple[str, ...]
    same: tuple[Same | None, ...]
    kinds: tuple[str, ...]
    columns: tuple[BinlogColumn, ...] = ()
    """The source's columns."""
    shown: tuple[str, ...] = ()
    """The names in an image, if a mapping omits columns."""
    place: tuple[str, ...] = ()
    """The columns that choose a row's partition in place of its key."""
    passes: Predicate | None = None
    """The row filter of a mapping."""

    @classmethod
    def of(
        cls, shape: Shape, version: Described | None, route: Route | None = None
    ) -> Columns | None:
        """Return the comparison, by the rules of ``route``; None if the columns' names are not known."""
        if shape.has_names:
            names = tuple(column.name or "" for column in shape.columns)
            key = shape.primary_key or ()
        elif version is not None and not _omits(route):
            names, key = version.columns, version.primary_key
        else:
            return None
        columns = shape.columns
        if version is not None and not shape.has_names:
            # A binlog without names may also lack signedness, character sets and labels.
            columns = tuple(map(column_of_type, version.columns, version.types, version.charsets))
        kinds = tuple(column.type for column in columns)
        found = cls(names, tuple(key), tuple(map(comparison, columns)), kinds, tuple(columns))
        if route is None or route.mapped is None:
            return found
        found = found.with_rules(route.mapped.rules, version, route.column_rules)
        if not shape.has_names:
            # For masked columns, the version has the types of the replacements, and the binlog lacks details of
            # the source's.
            masked = [name.lower() in route.column_rules for name in names]
            pairs = zip(found.same, masked, strict=True)
            found.same = tuple(None if is_masked else same for same, is_masked in pairs)
        return found

    def with_rules(
        self, rules: Rules, version: Described | None, masks: Mapping[str, MaskingRule]
    ) -> Columns:
        """Return the comparison under a mapping's rules; ``masks`` are masking rules by lower-case column."""
        own = {name.lower(): name for name in self.names}
        published = {name.lower() for name in rules.columns or self.names}
        actions = {one.column.lower(): one for one in rules.column_actions}
        published -= {name for name, one in actions.items() if one.action == "drop"}
        renames = {
            own.get(name, name): one.argument
            for name, one in actions.items()
            if one.action == "rename"
        }

        def listed(names: Iterable[str]) -> tuple[str, ...]:
            found = (own.get(name.lower(), name) for name in names)
            return tuple(renames.get(name, name) for name in found)

        found = replace(
            self,
            names=listed(self.names),
            key=listed(rules.key or self.key),
            place=listed(rules.partition_by),
            shown=listed(name for name in self.names if name.lower() in published),
            same=tuple(
                masked_comparison(column, masks[name.lower()]) if name.lower() in masks else same
                for name, column, same in zip(self.names, self.columns, self.same, strict=False)
            ),
        )
        if rules.row_filter and actions.keys() & {
            name.lower() for name in row_filter(rules.row_filter)[1]
        }:
            # The filter reads a column that is not published as it is.
            found.passes = _unjudged
        elif rules.row_filter and version is not None:
            types = dict(zip(version.columns, version.types, strict=True))
            found.passes = predicate(rules.row_filter, types)
        return found

    def moves(self, change: Change) -> bool:
        """Return whether a change modifies the key of its row, or a column that chooses the partition."""
        if change.kind != "u" or not self.key:
            return False
        old, new = _numbered(change.before), _numbered(change.after)
        indexes = [self.names.index(name) + 1 for name in (*self.key, *self.place)]
        return any(new.get(index, old.get(index)) != old.get(index) for index in indexes)


def _omits(route: Route | None) -> bool:
    """Whether a version lacks columns of its table, so that it cannot supply the names that a binlog lacks."""
    if route is None or route.mapped is None:
        return False
    rules = route.mapped.rules
    return bool(rules.columns) or any(one.action == "drop" for one in rules.column_actions)


def _unjudged(_image: object) -> bool:
    """Every row passes a filter that cannot be judged."""
    return True


def _numbered(image: bytes) -> dict[int, bytes]:
    """Printed values by the number of their column."""
    found = {}
    for line in image.split(b"\n"):
        number, _, value = line.partition(b"=")
        if number:
            found[int(number)] = value
    return found


class Comparer:
    """Compares record after record, and counts what it cannot compare."""

    def __init__(self, unjudged: Counter[str], route_of: RouteOf) -> None:
        self._unjudged, self._route_of = unjudged, route_of
        self._columns: dict[tuple[int, int], tuple[Shape, Described | None, Columns | None]] = {}

    def columns(self, shape: Shape, version: Described | None) -> Columns | None:
        """Return the comparison of rows of this shape and version."""
        # References to both are kept, so that their ids are not reused.
        found = self._columns.get((id(shape), id(version)))
        if found is None:
            found = (shape, version, Columns.of(shape, version, self._route_of(shape.name)))
            self._columns[id(shape), id(version)] = found
        return found[2]

    def fault(
        self, change: Change, value: dict[str, Any], half: str, version: Described | None
    ) -> str | None:
        """Return the fault of a record's form or values; None if there is none."""
        if change.kind == "t":
            return None if value["op"] == "t" else f"op is {value['op']}, the table was emptied"
        columns = self.columns(change.shape, version)
        if columns is None:
            self._unjudged[
                f"{'.'.join(change.shape.name)}: the names of its columns are unknown"
            ] += 1
            return None
        if columns.passes is not None and not half:
            return self._filtered(columns.passes, columns, change, value)
        moves = columns.moves(change)
        wanted = {"": change.kind, "0": "d", "1": "c"}[half] if moves == bool(half) else "halves"
        if value["op"] != wanted:
            return f"it is {value['op']}{half and '/'}{half}, the source has {change.kind}" + (
                " with another key" if moves else ""
            )
        before = change.before if wanted in ("u", "d") else None
        after = change.after if wanted in ("u", "c") else None
        return self._image(change.shape, columns, before, value["before"], value) or self._image(
            change.shape, columns, after, value["after"], value
        )

    def _filtered(
        self, passes: Predicate, columns: Columns, change: Change, value: dict[str, Any]
    ) -> str | None:
        """The fault of a record of a table with a row filter; an update may move a row in or out of it."""
        op = value["op"]
        if op != change.kind and not (change.kind == "u" and op in ("c", "d")):
            return f"it is {op}, the source has {change.kind}"
        for image in (value["before"], value["after"]):
            if image is not None and not passes(image):
                return "its row does not pass the row filter"
        before = change.before if op in ("u", "d") else None
        after = change.after if op in ("u", "c") else None
        return self._image(change.shape, columns, before, value["before"], value) or self._image(
            change.shape, columns, after, value["after"], value
        )

    def _image(
        self,
        shape: Shape,
        columns: Columns,
        printed: bytes | None,
        image: dict[str, Any] | None,
        value: dict[str, Any],
    ) -> str | None:
        if printed is None or image is None:
            return (
                None
                if (printed is None) == (image is None)
                else "an image is missing, or there is one too many"
            )
        lines = printed.split(b"\n")
        names = columns.names
        shown = columns.shown or names
        if len(lines) != len(names):
            return self._partial(shape, columns, printed, image, value)
        replaced = value.get("replaced", ())
        if tuple(image) != shown:
            return "its columns are not the table's"
        for line, name, same, kind in zip(lines, names, columns.same, columns.kinds, strict=True):
            if name not in image:
                continue
            text, found = line[line.index(b"=") + 1 :], image[name]
            what = f"{'.'.join(shape.name)}.{name}: {kind}"
            if not self._same(text, found, same, what, is_replaced=name in replaced):
                return f"{name} has another value"
        return None

    def _same(
        self, text: bytes, found: Any, same: Same | None, what: str, *, is_replaced: bool
    ) -> bool:
        if text == b"NULL" or (found is None and not getattr(same, "may_be_null", False)):
            return text == b"NULL" and found is None
        if same is None:
            self._unjudged[what] += 1
            return True
        if text == UNTOLD:
            self._unjudged[f"{what}, which the witness cannot distinguish"] += 1
            return True
        if text.startswith(b"JSON_"):  # a difference from the previous document, not a document
            self._unjudged[f"{what}, partial"] += 1
            return True
        try:
            return same(text, found)
        except UnicodeDecodeError:
            if is_replaced:
                self._unjudged[f"{what}, with characters that Unicode lacks"] += 1
            return is_replaced

    def _partial(
        self,
        shape: Shape,
        columns: Columns,
        printed: bytes,
        image: dict[str, Any],
        value: dict[str, Any],
    ) -> str | None:
        """The fault of an image that lacks columns: it must have all printed columns, and no absent ones."""
        for number, text in _numbered(printed).items():
            name = columns.names[number - 1]
            if columns.shown and name not in columns.shown:
                continue
            if name not in image:
                return f"{name} is missing"
            what = f"{'.'.join(shape.name)}.{name}: {columns.kinds[number - 1]}"
            is_replaced = name in value.get("replaced", ())
            same = columns.same[number - 1]
            if not self._same(text, image[name], same, what, is_replaced=is_replaced):
                return f"{name} has another value"
        absent = set(value.get("absent", ()))
        extra = absent & set(image)
        return f"{min(extra)} has a value and is listed as absent" if extra else None


def key_fault(
    columns: Columns | None,
    value: dict[str, Any],
    record: StoredRecord,
    target: tuple[int, int],
    *,
    shard: tuple[str, str, str] | None = None,
) -> str | None:
    """Return the fault of a record's key, or of its partition; None if there is none.

    ``target`` is the record's partition and the number of partitions. ``shard`` is the destination, database
    and table, if the key begins with them.
    """
    partition, partitions = target
    if columns is None:
        return None
    if not columns.key or value["op"] == "t":
        change_id = dict(record.headers).get(HEADER_CHANGE_ID, b"")
        if record.key and record.key != change_key(change_id):
            return "it has a key, but its table has none"
        return None if partition == 0 else "it has no key and is not in partition 0"
    image = value["after"] or value["before"] or {}
    try:
        key = orjson.loads(record.key)
    except orjson.JSONDecodeError:
        return "its key is not JSON"
    head = [] if shard is None else [(KEY_SHARD, list(shard))]
    if list(key.items()) != [*head, *((name, image.get(name)) for name in columns.key)]:
        return "its key is not its row's"
    place = record.key
    if columns.place:
        place = orjson.dumps({name: image.get(name) for name in columns.place})
    if partition_of(place, partitions) != partition:
        return "its key belongs to another partition"
    return None


# Comparison of a masked value on the wire with the source's value, which is masked here before it is compared.
#
# Invariant: the source's value is written as docs/wire.md defines, by code of the audit's own; types whose text
# on the wire a witness does not print exactly are not judged.


_INTEGERS = frozenset({"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"})
_TEXTS = frozenset({"CHAR", "VARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"})
_BYTES = frozenset({"VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"})


class _Redacted:
    """The comparison of a column in which one text, or NULL, replaces all values."""

    may_be_null = True

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __call__(self, printed: bytes, value: Any) -> bool:  # noqa: ARG002 - as a Same
        return bool(value == self._text)


def masked_comparison(column: BinlogColumn, rule: MaskingRule) -> Same | None:
    """Return the comparison of a masked column's values; None if they cannot be compared."""
    if isinstance(rule, Redact):
        return _Redacted(rule.text)
    text_of = _text_of(column)
    if text_of is None:
        return None
    if isinstance(rule, Truncate):
        length = rule.length
        return lambda printed, value: bool(text_of(printed)[:length] == value)
    if isinstance(rule, Hmac):
        key_id, key = rule.key_id, rule.key
        before = b"\xff" + rule.domain.encode() + b"\xff" if rule.domain else b""

        def same(printed: bytes, value: Any) -> bool:
            digest = hmac.new(key, before + text_of(printed).encode(), hashlib.sha256).hexdigest()
            return bool(value == f"{key_id}:{digest}")

        return same
    return None


def _text_of(column: BinlogColumn) -> Callable[[bytes], str] | None:
    """The function from a printed value to its text on the wire; None if the text is not known exactly."""
    kind = column.type
    if kind in _INTEGERS:
        return _unsigned if column.unsigned else _signed
    if kind in _TEXTS:
        decode = decoder_of(column.charset)
        return None if decode is None else lambda printed: decode(unquoted(printed))
    if kind in _BYTES:
        return lambda printed: base64.b64encode(unquoted(printed)).decode()
    if kind == "DECIMAL":
        return bytes.decode
    if kind == "DATE":
        return lambda printed: unquoted(printed).decode().replace(":", "-")
    if kind == "ENUM" and column.labels is not None and comparison(column) is not None:
        labels = ("", *column.labels)
        return lambda printed: labels[int(printed)]
    return None


def _signed(printed: bytes) -> str:
    return str(int(printed.partition(b" ")[0]))


def _unsigned(printed: bytes) -> str:
    number, _, more = printed.partition(b" (")
    return str(int(more[:-1] if more else number))
