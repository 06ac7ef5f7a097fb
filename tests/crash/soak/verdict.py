"""The verdict of a soak: the source's tables against the warehouse's, and against what the topics fold to.

Invariant: no reader or conversion of the product is used. Values are compared by the source's type of the
column: a number in whatever form, a time without its separator, all else as text.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import orjson

from devstack import topics as consumed
from tests.crash.soak.writer import MASKED, columns_of, tables_of
from tests.hostile import quoted

Row = Mapping[str, Any]
Masks = Mapping[str, Callable[[str], str]]
"""What is published of a value, by column."""
KEY = bytes(range(32))
MASKS: Mapping[str, tuple[Any, Callable[[str], str]]] = {
    "note": (
        {"hmac": "k1"},
        lambda text: "k1:" + hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest(),
    ),
    "card": ({"truncate": 3}, lambda text: text[:3]),
    "mail": ({"redact": "***"}, lambda _: "***"),
}
"""Columns that are masked later: the action in the mapping, and what it makes of a value."""
_NUMBERS = ("int", "bigint", "smallint", "decimal", "double")
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Table:
    """A table at the source."""

    kinds: Mapping[str, str]
    """The type of each column."""
    key: tuple[str, ...]
    rows: list[Row]

    def plain(self, row: Row, names: Iterable[str]) -> tuple[str | None, ...]:
        """Some columns of a row as text; one that the row lacks is named."""
        return tuple(
            _plain(row[name], self.kinds[name]) if name in row else f"(no column {name})"
            for name in names
        )


def _plain(value: Any, kind: str) -> str | None:
    if value is None or value == "(masked)":
        return value  # type: ignore[no-any-return]
    if kind in _NUMBERS:
        with contextlib.suppress(InvalidOperation):
            return f"{Decimal(str(value)).normalize() + 0:f}"
    text = str(value)
    return text.replace("T", " ").removesuffix("Z") if kind == "datetime" else text


def source_tables(cursor: Any) -> dict[str, Table]:
    """All tables of the source."""
    found = {}
    for name in tables_of(cursor):
        columns = columns_of(cursor, name)
        names = [one.name for one in columns]
        cursor.execute(f"SELECT {', '.join(map(quoted, names))} FROM shop.{quoted(name)}")
        found[name] = Table(
            kinds={one.name: one.kind for one in columns},
            key=tuple(one.name for one in columns if one.in_key),
            rows=[dict(zip(names, row, strict=True)) for row in cursor.fetchall()],
        )
    cursor.execute("COMMIT")
    return found


def warehouse_rows(dump: Path) -> dict[str, list[Row]]:
    """The rows of each table in a dump of the warehouse.

    Of a table without a key, each is there as often as its images make it.
    """
    found: dict[str, list[Row]] = {}
    images: dict[str, Counter[str]] = defaultdict(Counter)
    table, names, is_keyed = "", list[str](), True
    for line in map(orjson.loads, dump.read_bytes().splitlines()):
        if "columns" in line:
            table, names = line["table"], line["columns"]
            is_keyed = bool(line["key"])
            found[table] = []
        elif "values" in line and not line["deleted"]:
            row = dict(zip(names, line["values"].values(), strict=True))
            if is_keyed:
                found[table].append(row)
            else:
                images[table][json.dumps(row)] += line["delta"]
    for name, counted in images.items():
        negative = [f"{image} is there {n} times" for image, n in counted.items() if n < 0]
        assert not negative, (name, negative)
        found[name] = [json.loads(image) for image in counted.elements()]
    return found


def differences(name: str, table: Table, rows: Iterable[Row], masks: Masks) -> list[str]:
    """What a table's rows lack of the source's, and have more.

    A column that was masked later has NULL in rows that were not written since.
    """
    hidden = masks if name == MASKED else {}
    own = {row["id"]: row for row in table.rows} if hidden else {}
    veil = dict.fromkeys(hidden, "(masked)")
    wanted = Counter(table.plain({**row, **veil}, table.kinds) for row in table.rows)
    have: Counter[Any] = Counter()
    for row in rows:
        there = own.get(row.get("id"), {})
        fits = {
            column
            for column, mask in hidden.items()
            if row.get(column) in (None, there.get(column) and mask(there[column]))
        }
        have[table.plain({**row, **dict.fromkeys(fits, "(masked)")}, table.kinds)] += 1
    return [
        *(f"{name} lacks {row}, {n} time(s)" for row, n in (wanted - have).items()),
        *(f"{name} has {row}, {n} time(s) more" for row, n in (have - wanted).items()),
    ]


@dataclass(slots=True)
class Folded:
    """A table as a consumer of the topics has it."""

    rows: dict[tuple[Any, ...], tuple[Any, Row]] = field(default_factory=dict)
    """By key: the version of the columns and the image of each row."""
    images: Counter[str] = field(default_factory=Counter)
    """Without a key: how often each image is there."""
    newest: Any = None
    """The version of the last record."""
    older: bool = False
    """Whether there are images of several versions."""
    is_kept: bool = False
    """Whether its last TRUNCATE, DROP or RENAME was omitted, so that its rows are still there."""

    @property
    def number(self) -> int:
        """How many rows it has."""
        return len(self.rows) + self.images.total()

    def take(self, key: bytes | None, value: Mapping[str, Any]) -> None:
        """Apply a record."""
        source = value["source"]
        version = (source["table"], source["schema"])
        if value["op"] == "t":
            self.rows.clear()
            self.images.clear()
            self.older = self.is_kept = False
            return
        self.older |= self.newest not in (None, version) and bool(self.images)
        self.newest = version
        if key is None:
            for sign, image in ((-1, value["before"]), (1, value["after"])):
                if image is not None:
                    self.images[_text(image)] += sign
        elif value["op"] == "d":
            self.rows.pop(_key(key), None)
        else:
            self.rows[_key(key)] = version, value["after"]

    def rekey(self, key: list[str]) -> None:
        """Identify the rows by other columns."""
        self.rows = {
            tuple(row[name] for name in key): (version, row) for version, row in self.rows.values()
        }


def _key(key: bytes) -> tuple[Any, ...]:
    """A record's key without the real table, which it may begin with: `Folded` is one real table."""
    return tuple(value for name, value in json.loads(key).items() if name != "__shard")


def _text(image: Row) -> str:
    return orjson.dumps(image, option=orjson.OPT_SORT_KEYS).decode()


def folded(records: Iterable[tuple[bytes | None, Mapping[str, Any]]]) -> dict[str, Folded]:
    """Each table after all records, which are in the order of ``seq``."""
    tables: dict[str, Folded] = defaultdict(Folded)
    for key, value in records:
        if "ddl" not in value:
            tables[value["source"]["table"]].take(key, value)
            continue
        moving: dict[str, Folded] = {}
        mapped = {one["table"] for one in value.get("effects", ()) if one.get("logical")}
        for one in value.get("tables", ()):
            _follow(tables, moving, one, mapped)
        for one in value.get("effects", ()):
            if one["kind"] == "truncate omitted":
                tables[one["table"]].is_kept = True
    return tables


def _follow(
    tables: dict[str, Folded],
    moving: dict[str, Folded],
    one: Mapping[str, Any],
    mapped: Collection[str],
) -> None:
    """Apply one step of a statement; a table on its way through a third name is in ``moving``.

    To the rows of a `mapped` table only records do something, and none of them moves to another name.
    """
    name = one["table"]
    if one["database"] != "shop":
        return
    other = (one["renamed_to"] or one["renamed_from"] or {}).get("table")
    if name in mapped and (other is not None or one["change"] in ("created", "dropped")):
        if one["renamed_from"] is not None and other not in mapped:
            # Its records are about the table under the name that it had.
            tables.pop(str(other), None)
        return
    if other in mapped:
        if one["renamed_from"] is not None:
            tables[name] = Folded()
        return
    if one["renamed_to"] is not None:
        to = one["renamed_to"]["table"]
        moving[to] = (moving if name in moving else tables).pop(name, Folded())
    elif one["renamed_from"] is not None:
        on_its_way = name if name in moving else one["renamed_from"]["table"]
        tables[name] = moving.pop(on_its_way, Folded())
    elif one["change"] == "created":
        tables[name] = Folded()
    elif one["change"] == "dropped":
        tables.pop(name, None)
    elif one["old"] and one["old"]["primary_key"] != one["new"]["primary_key"]:
        tables[name].rekey(one["new"]["primary_key"])


def united(tables: Collection[Table]) -> Table:
    """The rows of several tables, in the columns that all of them have."""
    first = next(iter(tables))
    names = set.intersection(*(set(one.kinds) for one in tables))
    return Table(
        kinds={name: kind for name, kind in first.kinds.items() if name in names},
        key=first.key,
        rows=[row for one in tables for row in one.rows],
    )


def unfolded(name: str, table: Table, found: Folded, masks: Masks) -> Iterator[str]:
    """What a consumer's rows lack and have more: all keys, and all values of rows in the table's last version.

    Rows of earlier versions have the values from before the statements since.
    """
    if not table.key:
        if found.older:
            if (n := found.images.total()) != len(table.rows):
                yield f"{name} folds to {n} rows, not {len(table.rows)}"
            return
        yield from differences(name, table, map(orjson.loads, found.images.elements()), masks)
        return
    keys = Table(kinds={one: table.kinds[one] for one in table.key}, key=table.key, rows=table.rows)
    yield from differences(name, keys, (row for _, row in found.rows.values()), {})
    last = [row for version, row in found.rows.values() if version == found.newest]
    wrong = differences(name, table, last, masks)
    yield from (one for one in wrong if " has " in one)


def read(kafka: str, names: Iterable[str]) -> list[tuple[bytes | None, Mapping[str, Any]]]:
    """All records of topics with a value, in the order of ``seq``."""

    async def records() -> list[tuple[bytes | None, Mapping[str, Any]]]:
        return [
            (one.key, orjson.loads(one.value))
            async for batch in consumed.batches(kafka, [*names])
            for one in batch
            if one.value
        ]

    return sorted(asyncio.run(records()), key=lambda one: one[1]["source"]["seq"])


def numbered(records: Iterable[tuple[bytes | None, Mapping[str, Any]]]) -> list[str]:
    """Numbers that no record has, or several."""
    counts = Counter(value["source"]["seq"] for _, value in records)
    due = range(1, max(counts, default=0) + 1)
    return [f"seq {n} is there {counts[n]} times" for n in due if counts[n] != 1]


def shown(found: Iterable[str]) -> list[str]:
    """The first of them, and how many there are."""
    lines = [*found]
    rest = len(lines) - _SHOWN
    return [*itertools.islice(lines, _SHOWN), *([f"… and {rest} more"] if rest > 0 else [])]
