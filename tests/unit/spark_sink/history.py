"""A pure model of the sink's rule, and records as docs/wire.md has them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Image = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One record of table shop.t; the key is `id`."""

    op: str
    seq: int
    before: Image | None = None
    after: Image | None = None
    epoch: int = 1
    destination: str = "shop"
    ts_ms: int | None = None
    table: str = "t"
    logical: tuple[str, str] | None = None
    """The logical database and table, where a mapping applies."""
    version: int | None = 1
    more: Image | None = None
    """Members of the envelope beside those."""
    headers: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        return self.epoch, self.seq

    @property
    def time(self) -> int:
        return 1_000_000 + self.seq if self.ts_ms is None else self.ts_ms

    def value(self) -> str:
        body = {
            "before": self.before,
            "after": self.after,
            "source": {
                "name": self.destination,
                "db": "shop",
                "table": self.table,
                "ts_ms": self.time,
                "seq": self.seq,
                "epoch": self.epoch,
                "schema": self.version,
                "wire": 1,
                **self._mapping(),
            },
            "op": self.op,
            "ts_ms": self.time,
            **(self.more or {}),
        }
        return json.dumps(body, separators=(",", ":"))

    def _mapping(self) -> Image:
        if self.logical is None:
            return {}
        return dict(zip(("logical_db", "logical_table"), self.logical, strict=True))


def schema(
    *columns: tuple[str, str],
    key: tuple[str, ...] = ("id",),
    table: str = "t",
    version: int = 1,
    destination: str = "shop",
    more: dict[str, Image] | None = None,
    masked: Image | None = None,
    topic: str | None = None,
) -> str:
    """A value of the schemas topic; `more` are further members of columns, `masked` those that are hidden."""
    body = {
        "destination": destination,
        "database": "shop",
        "table": table,
        "version": version,
        "columns": [
            {"name": name, "type": kind, "nullable": True, **(more or {}).get(name, {})}
            for name, kind in columns
        ],
        "primary_key": list(key),
        "wire": 1,
        **({} if masked is None else {"mapping": {"masked": masked}}),
    }
    return json.dumps(body if topic is None else {**body, "topic": topic})


def held(changes: list[Change]) -> dict[Any, Image]:
    """The rows of a keyed table after the changes, in source order."""
    rows: dict[Any, Image] = {}
    for change in sorted(changes, key=lambda c: c.place):
        if change.op == "t":
            rows.clear()
        elif change.op == "d":
            assert change.before is not None
            rows.pop(change.before["id"], None)
        else:
            assert change.after is not None
            rows[change.after["id"]] = change.after
    return rows


def logged(changes: list[Change]) -> list[Image]:
    """The rows of a table without a key after the changes."""
    rows: list[Image] = []
    for change in sorted(changes, key=lambda c: c.place):
        if change.op == "t":
            rows.clear()
        if change.before is not None:
            rows.remove(change.before)
        if change.after is not None:
            rows.append(change.after)
    return rows
