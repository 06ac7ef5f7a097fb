"""The plan of a load, as `python -m app snapshot plan` prints it.

Invariant: a plan is used whole or refused; the sink adds nothing to what the plan states of tables and columns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from spark_sink.errors import BadSettings, LoadRefused
from spark_sink.warehouse.ledger import Source
from spark_sink.warehouse.protocol import Name
from wire.table_version import VersionKey

_WHAT: Final = "aqueduct load plan"
_FORMS: Final = (1, 2)
"""The second form has refused tables, which a version that knows only the first form would ignore."""
_MAKE: Final = "Make it with: python -m app snapshot plan DEST TABLE > FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table at the source.

    `columns` are, in their order, the published name, the real name, and the real type as the server prints it.
    """

    destination: str
    database: str
    table: str
    version: int
    topic: str
    is_mapped: bool
    """Whether a mapping applies to it, so that its rows are kept apart from rows of other source tables."""
    key: tuple[str, ...]
    """The real names of the primary key's columns."""
    columns: tuple[tuple[str, str, str], ...]

    @property
    def real(self) -> tuple[str, str]:
        """Its name at the source."""
        return self.database, self.table

    @property
    def version_key(self) -> VersionKey:
        """The version of its columns in the schemas topic."""
        return VersionKey(self.destination, self.database, self.table, self.version)

    def source(self, name: Name) -> Source:
        """Return the source of its rows in the warehouse's table `name`."""
        if self.is_mapped:
            return Source(self.destination, self.database, self.table)
        return Source(self.destination, *name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The tables of the warehouse to load, each with the source tables that fill it."""

    prefix: str
    tables: dict[Name, tuple[SourceTable, ...]]
    refused: dict[Name, str] = field(default_factory=dict)
    """Tables of which a SELECT does not return what the topics have, each with the reason and what to do."""
    destinations: tuple[str, ...] = ()
    """The destinations whose plans it includes."""

    def only(self, names: Collection[Name]) -> LoadPlan:
        """Return the plan of the named tables, of all if none is named. Raise BadSettings for unknown names."""
        for name in names:
            if name not in self.tables and name not in self.refused:
                there = ", ".join(".".join(one) for one in (*self.tables, *self.refused))
                raise BadSettings(f"the plan has no table {'.'.join(name)}, but: {there}")
        if not names:
            return self
        return replace(
            self,
            tables={name: own for name, own in self.tables.items() if name in names},
            refused={name: why for name, why in self.refused.items() if name in names},
        )

    def check_none_refused(self) -> None:
        """Raise LoadRefused if the plan has a refused table."""
        for name, why in self.refused.items():
            raise LoadRefused(f"{'.'.join(name)}: {why}")


def read_plans(files: Sequence[Path], prefix: str) -> LoadPlan:
    """Return the plans in several files, as one plan. Raise BadSettings."""
    tables: dict[Name, tuple[SourceTable, ...]] = {}
    refused: dict[Name, str] = {}
    plans = [(file, read_plan(file, prefix)) for file in files]
    for file, plan in plans:
        refused |= plan.refused
        for name, own in plan.tables.items():
            held = tables.get(name, ())
            if twice := {one.destination for one in held} & {one.destination for one in own}:
                raise BadSettings(f"{file}: another plan has {'.'.join(name)} of {twice.pop()} too")
            tables[name] = (*held, *own)
    return LoadPlan(
        prefix=prefix,
        # A table is compared, or loaded, with all its sources.
        tables={name: own for name, own in tables.items() if name not in refused},
        refused=refused,
        destinations=tuple(sorted({one for _, plan in plans for one in plan.destinations})),
    )


def read_plan(file: Path, prefix: str) -> LoadPlan:
    """Return the plan in a file, which must be for topics with this prefix. Raise BadSettings."""
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        if body["what"] != _WHAT:
            raise ValueError(f"it is {body['what']!r}")
        if body["form"] not in _FORMS:
            raise ValueError(f"it has form {body['form']}, and this version reads {_FORMS[-1]}")
        plan = _parsed(body)
    except (OSError, ValueError, KeyError, TypeError) as fault:
        reason = f"{fault} is missing" if isinstance(fault, KeyError) else str(fault)
        raise BadSettings(f"{file} is no load plan: {reason}", advice=_MAKE) from fault
    if plan.prefix != prefix:
        raise BadSettings(f"{file} is for the prefix {plan.prefix!r}, not {prefix!r}")
    return plan


def _parsed(body: dict[str, Any]) -> LoadPlan:
    tables: dict[Name, tuple[SourceTable, ...]] = {}
    for one in body["tables"]:
        database, table = one["logical"]
        source = SourceTable(
            destination=body["destination"],
            database=one["database"],
            table=one["table"],
            version=int(one["version"]),
            topic=one["topic"],
            is_mapped=bool(one["is_mapped"]),
            key=tuple(one["key"]),
            columns=tuple(
                (own["name"], own["source"], own["column_type"]) for own in one["columns"]
            ),
        )
        tables[database, table] = (*tables.get((database, table), ()), source)
    refused = {
        (one["logical"][0], one["logical"][1]): one["why"] for one in body.get("refused", ())
    }
    if not tables and not refused:
        raise ValueError("it has no tables")
    return LoadPlan(
        prefix=body["prefix"],
        tables=tables,
        refused=refused,
        destinations=(body["destination"],),
    )
