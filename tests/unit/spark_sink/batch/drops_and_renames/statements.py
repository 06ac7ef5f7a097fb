"""Records of a DDL topic as docs/wire.md has them, and a topic of them without Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spark_sink.batch.drops_and_renames.statement import Record
from spark_sink.source.positions import Offsets

TOPIC = ("aq.__ddl.shop", 0)


def table(
    name: str, change: str, *, to: str | None = None, was: str | None = None, **more: Any
) -> dict[str, Any]:
    """One step of a statement."""
    return {
        "database": "shop",
        "table": name,
        "change": change,
        "renamed_to": to and {"database": "shop", "table": to},
        "renamed_from": was and {"database": "shop", "table": was},
        "old": None,
        "new": None,
        **more,
    }


def renames(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    """The steps of a RENAME TABLE as a worker lists them: a name in between is neither left nor taken."""
    origins: dict[str, str] = {}
    for old, new in pairs:
        origins[new] = origins.pop(old, old)
    found = []
    for old, new in pairs:
        if any(first == old != last for last, first in origins.items()):
            found.append(table(old, "renamed", to=new))
        if origins.get(new, new) != new:
            found.append(table(new, "renamed", was=old))
    return found


def record(
    seq: int,
    ddl: str,
    *tables: Mapping[str, Any],
    epoch: int = 1,
    destination: str = "shop",
    **more: Any,
) -> str:
    """A value of the DDL topic."""
    body = {
        "source": {
            "name": destination,
            "db": "shop",
            "table": None,
            "ts_ms": 1_000_000 + seq,
            "seq": seq,
            "epoch": epoch,
            "wire": 1,
        },
        "database": "shop",
        "ddl": ddl,
        "type": ddl.split()[0],
        "tables": list(tables),
        "effects": [],
        **more,
    }
    return json.dumps(body)


def drop(seq: int, *names: str, **more: Any) -> str:
    return record(seq, "DROP TABLE …", *(table(name, "dropped") for name in names), **more)


def rename(seq: int, *pairs: tuple[str, str], **more: Any) -> str:
    return record(seq, "RENAME TABLE …", *renames(*pairs), **more)


def create(seq: int, name: str, **more: Any) -> str:
    return record(seq, "CREATE TABLE …", table(name, "created"), **more)


class Topic:
    """See topic.DdlTopics."""

    def __init__(self, rows: Any = None) -> None:
        self.values: list[str] = []
        self.rows = rows
        self.reads = 0
        self.first = 0
        self.all_rows = 0
        """The end of the row topic, if more is written than the test has shown yet."""
        self.more: Offsets = {}
        """The ends of further row topics."""

    def settled(self) -> tuple[Offsets, Offsets]:
        return {TOPIC: self.first}, {TOPIC: len(self.values)}

    def read(self, start: Offsets, end: Offsets) -> list[Record]:
        self.reads += 1
        return [(*TOPIC, at, self.values[at]) for at in range(start[TOPIC], end[TOPIC])]

    def written(self) -> dict[tuple[str, int], int]:
        if self.all_rows:
            return {("aq.shop.t", 0): self.all_rows, **self.more}
        return dict(self.rows.ends()) if self.rows is not None else {}
