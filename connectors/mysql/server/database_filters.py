"""A server's databases, and its filters by database and table: of its binlog, and of the changes that it
applies.

Invariant: a filter counts as harmless only if it certainly excludes no captured table. Future
tables are unknown, so expressions are compared, not only existing tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

SYSTEM = ("information_schema", "mysql", "ndbinfo", "performance_schema", "sys")
"""The server's own databases."""


Captures = Callable[[str, str], bool]

_PROBE = "aqueduct_any_table"
"""A table name that no expression matches unless it matches every name."""
_LITERAL = re.compile(r"([\w$-]+)\\{1,2}\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogFilters:
    """The ``--binlog-do-db`` and ``--binlog-ignore-db`` filters."""

    do: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def parse(cls, rows: Iterable[Mapping[str, str]]) -> BinlogFilters:
        """Parse the rows of SHOW BINARY LOG STATUS."""
        do, ignore = (
            tuple(
                one.strip()
                for row in rows
                for one in (row.get(name) or "").split(",")
                if one.strip()
            )
            for name in ("binlog_do_db", "binlog_ignore_db")
        )
        return cls(do=do, ignore=ignore)

    def __bool__(self) -> bool:
        return bool(self.do or self.ignore)

    def excluded(self, captured: Iterable[str]) -> list[str]:
        """Return the captured databases whose changes are not in the binlog."""
        return sorted(
            {one for one in captured if one in self.ignore or (self.do and one not in self.do)}
        )


@dataclass(frozen=True, slots=True)
class ReplicationFilter:
    """One replication filter rule, named as in ``performance_schema.replication_applier_filters``."""

    name: str
    """``REPLICATE_DO_DB`` and so on, or a variable's name."""
    rule: str

    def __str__(self) -> str:
        return f"{self.name} = {self.rule}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The captured tables, by the settings and by the server's existing tables."""

    include: str
    captures: Captures
    tables: frozenset[tuple[str, str]] = frozenset()
    databases: frozenset[str] = frozenset()

    def has(self, database: str) -> bool:
        """Whether a table of a database is captured, or may be captured once it is created."""
        return (
            self.captures(database, _PROBE)
            or database in (self.named or ())
            or any(one[0] == database and self.captures(*one) for one in self.tables)
        )

    @property
    def named(self) -> frozenset[str] | None:
        """The databases that the expressions name; None if an expression may match other databases too."""
        parts = [part.strip() for part in self.include.split(",") if part.strip()]
        found = [_LITERAL.match(part) for part in parts]
        return frozenset(one[1] for one in found if one) if all(found) else None

    @property
    def known(self) -> frozenset[str]:
        """Captured databases that exist or are named."""
        there = {one[0] for one in self.tables} | self.databases
        return frozenset(one for one in there | (self.named or frozenset()) if self.has(one))


def concerning(filters: Iterable[ReplicationFilter], captured: Captured) -> list[ReplicationFilter]:
    """The filters that may exclude changes of captured tables."""
    listed = list(filters)
    allowed = {one.rule for one in listed if one.name == "REPLICATE_DO_DB"} | {
        one.rule.partition(".")[0]
        for one in listed
        if one.name == "REPLICATE_WILD_DO_TABLE" and one.rule.partition(".")[2] == "%"
    }
    covers = captured.named is not None and captured.named <= allowed
    return [one for one in listed if _concerns(one, captured, covers=covers)]


def _concerns(one: ReplicationFilter, captured: Captured, *, covers: bool) -> bool:
    database, _, table = one.rule.partition(".")
    if one.name == "REPLICATE_IGNORE_DB":
        return captured.has(one.rule)
    if one.name == "REPLICATE_IGNORE_TABLE":
        return captured.captures(database, table)
    if one.name == "REPLICATE_WILD_IGNORE_TABLE":
        return _wild(database, table, captured)
    if one.name in ("REPLICATE_DO_DB", "REPLICATE_WILD_DO_TABLE"):
        return not covers
    return True


def _wild(database: str, table: str, captured: Captured) -> bool:
    """Whether a pattern with ``%`` and ``_`` may match a captured table."""
    pattern = re.compile(_expression(database) + r"\0" + _expression(table), re.DOTALL)
    if any(
        pattern.fullmatch("\0".join(one)) and captured.captures(*one) for one in captured.tables
    ):
        return True
    names = captured.known | {re.sub(r"\\(.)", r"\1", database)}
    matching = [one for one in names if re.fullmatch(_expression(database), one, re.DOTALL)]
    plain = re.sub(r"\\(.)", r"\1", table.replace("%", ""))
    return any(
        captured.captures(one, plain or _PROBE) or ("%" in table and captured.has(one))
        for one in matching
    )


def _expression(pattern: str) -> str:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    made = {"%": ".*", "_": "."}
    return "".join(made.get(one, re.escape(one.removeprefix("\\"))) for one in parts)
