"""Shards for tests: versions of real tables, each written as one line of columns."""

from __future__ import annotations

import re

from connectors.mysql.position import Coordinates
from tables.history.logical_schemas.decisions import Decided, Decision, Decisions, Verb
from tables.history.logical_schemas.logical_schema import (
    LogicalSchema,
    logical_schema,
    refusal,
    types_of,
)
from tables.history.logical_schemas.shard import RealTable, Shard, ShardName
from tables.rules.table_version import TableVersion
from wire.table_version import Column, Definition

NAME = ("trade", "orders")
_TEXT = re.compile(r"char|text|enum|set")


def column(text: str) -> Column:
    """A column from ``name type [charset] [not null]``; a text without a charset is utf8mb4."""
    name, rest = text.strip().split(" ", 1)
    nullable = not rest.endswith(" not null")
    kind = rest.removesuffix(" not null")
    charset = "utf8mb4" if _TEXT.match(kind.removeprefix("var")) else None
    if kind.split()[-1] in ("latin1", "gbk", "utf8mb3", "utf8mb4"):
        kind, _, charset = kind.rpartition(" ")
    return Column(name=name, type=kind, nullable=nullable, charset=charset, column_type=kind)


def version(
    name: ShardName, number: int, columns: str, *, key: str = "id", ts_ms: int = 0
) -> TableVersion:
    """A version whose columns are separated by ``;``."""
    return TableVersion(
        destination=name.destination,
        database=name.database,
        table=name.table,
        version=number,
        topic="aq.trade",
        definition=Definition(
            columns=tuple(map(column, columns.split(";"))),
            primary_key=tuple(key.split(",")) if key else (),
        ),
        gtid=None,
        coordinates=Coordinates("b.000001", 4),
        ts_ms=ts_ms,
    )


class Shards:
    """The shards of one logical table, and the decisions on them."""

    def __init__(self, *names: str, columns: str = "id int not null") -> None:
        self.real: dict[str, RealTable] = {}
        self.decisions = Decisions()
        self.dropped: dict[str, int] = {}
        """By shard: the time of its drop."""
        self._now = 0
        for name in names:
            self.alter(name, columns)

    def alter(self, name: str, columns: str, *, key: str = "id") -> LogicalSchema:
        """Give a shard other columns, a second later than what was done before."""
        self._now += 1000
        full = full_name(name)
        real = self.real.setdefault(name, RealTable(full))
        real.take(version(full, len(real.versions) + 1, columns, key=key, ts_ms=self._now))
        return self.schema

    def drop(self, name: str) -> None:
        """Forget a shard, as if no rule named it any more."""
        del self.real[name]

    @property
    def shards(self) -> list[Shard]:
        return [one.shard(dropped_ms=self.dropped.get(name)) for name, one in self.real.items()]

    @property
    def schema(self) -> LogicalSchema:
        return logical_schema(NAME, self.shards, self.decisions.in_force(NAME))

    def decide(self, verb: Verb, name: str = "", value: str = "") -> str:
        """Send a decision as a worker applies or refuses it; return why it is refused."""
        self._now += 1000
        schema = self.schema
        decision = Decision(
            table=NAME,
            id=str(self._now),
            verb=verb,
            name=str(full_name(name)) if verb in (Verb.EXCLUDE, Verb.INCLUDE) else name,
            value=value or (schema.difference if verb is Verb.ACCEPT else ""),
            by="ann",
            why="a test",
            ts_ms=self._now,
            offset=self._now,
        )
        self.decisions.send(decision)
        why = refusal(decision, schema)
        among = types_of(schema, name) if verb is Verb.TAKE_TYPE else ()
        in_force, among = self.decisions.before(decision) if why else (decision, among)
        self.decisions.decide(
            Decided(
                table=NAME, subject=decision.subject, id=decision.id, refused=why, state="",
                in_force=in_force, among=among, worker="w", ts_ms=self._now,
            )
        )  # fmt: skip
        return why


def full_name(name: str) -> ShardName:
    """``a1`` is the table orders_1 of destination a."""
    return ShardName(name[0], "shop", f"orders_{name[1:]}")


def text_of(schema: LogicalSchema) -> list[str]:
    """The columns of a schema, as they were written."""
    return [f"{one.name} {one.type}{'' if one.nullable else ' not null'}" for one in schema.columns]


def lacking(schema: LogicalSchema) -> dict[str, list[str]]:
    """Each change with the shards that lack it, in their short names."""
    return {
        str(change): [f"{one.destination}{one.table[-1]}" for one in change.lacking]
        for change in schema.changes
    }
