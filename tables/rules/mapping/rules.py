"""The rules of a route as values; executing them is not part of this package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, get_args

from tables.rules.mapping.row_filter import row_filter


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionKind:
    """What an action does to a column's values; each default is the strictest."""

    argument: str = ""
    """What its argument must be, as errors describe it; empty: it takes no argument."""
    is_optional: bool = False
    """Whether the argument may be missing."""
    is_number: bool = False
    """Whether the argument is a number from 1, not a text."""
    is_keyed: bool = False
    """Whether the argument is the id of a key in the key file, beside which a domain may be named."""
    hides: bool = True
    """Whether values are hidden, so that nothing raw of a row may leave the worker."""
    shows_part: bool = True
    """Whether a part of each value is published, which a later action may have to hide."""
    keeps_apart: bool = False
    """Whether different values stay different when they are published, as a key needs."""
    removes: bool = False
    """Whether the column itself is not published."""
    any_type: bool = False
    """Whether it applies to columns of any type; otherwise to texts alone."""


RENAME = "rename"
DROP = "drop"
ACTIONS = {
    "hmac": ActionKind(
        argument="the id of a key", is_keyed=True, shows_part=False, keeps_apart=True, any_type=True
    ),
    "truncate": ActionKind(argument="a length from 1", is_number=True),
    "redact": ActionKind(argument="a text", is_optional=True, shows_part=False, any_type=True),
    DROP: ActionKind(shows_part=False, removes=True, any_type=True),
    RENAME: ActionKind(argument="a name", hides=False, keeps_apart=True, any_type=True),
}
"""The column actions. The rules that replace values are in ``tables/rules/masking.py``."""
OPERATIONS = ("insert", "update", "delete")
DDL_TYPES = ("create", "alter", "drop", "rename", "truncate")
DEBEZIUM = "debezium"
"""The record format of the envelope."""
AVRO = "avro"
CONNECT = "connect"
"""A Debezium connector's records, whose keys have another form than the envelope's."""
Format = Literal["debezium", "canal", "connect", "maxwell", "avro"]
FORMATS: tuple[str, ...] = get_args(Format)
NAMING_FORMATS = (DEBEZIUM, CONNECT, AVRO)
"""Formats whose records name the real table themselves; records of other formats name it only in their key."""
SHARD_IN_KEY = ("auto", "always", "never")
ON_DROP = ("auto", "delete", "keep")
Truncates = Literal["record", "omit", "deletes"]
TRUNCATES: tuple[str, ...] = get_args(Truncates)
RECORD, OMIT, DELETES = TRUNCATES
"""What is published of a TRUNCATE: its record, nothing, or the deletes of the rows that its topic has."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ColumnAction:
    """What is done to a column's values."""

    column: str
    action: str
    argument: str = ""
    domain: str = ""
    """Of an HMAC: a name that makes a value's HMAC differ from its HMACs in other domains; empty: no domain."""

    @property
    def kind(self) -> ActionKind:
        """What the action does; an action that is not listed counts as the strictest kind."""
        return ACTIONS.get(self.action, ActionKind())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Filters and formats of a logical table; an empty tuple or text leaves the default.

    The names of this class and of its fields are in the digests of stored mappings, and so never change.
    """

    include: str = ""
    """Canal's expressions over real ``database.table``, with commas; empty: all."""
    black: str = ""
    columns: tuple[str, ...] = ()
    row_filter: str = ""
    """An expression in MySQL's syntax, normalized."""
    operations: tuple[str, ...] = ()
    ddl: tuple[str, ...] = ()
    column_actions: tuple[ColumnAction, ...] = ()
    format: str = ""
    """The records' format; empty: the logical database's format, or else the envelope."""
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    partitions: int = 0
    repartition_from: int = 0
    """The earlier partition count of the topic, if the count is to change; 0: it does not change."""
    shard_in_key: str = "auto"
    on_drop: str = "auto"
    """Whether a dropped real table's rows are deleted for subscribers; ``auto``: if keys name the table."""
    truncates: str = ""
    """What is published of a TRUNCATE; empty: as the destination's settings state."""
    tag_topics: tuple[str, ...] = ()
    """The tags whose records are published again on a topic of their own."""

    @property
    def renames(self) -> dict[str, str]:
        """The new names of columns, by the columns' own names in lower case."""
        renamed = (one for one in self.column_actions if one.action == RENAME)
        return {one.column.lower(): one.argument for one in renamed}


# Rules of one table that exclude each other, whatever its columns are.


def contradictions(rules: Rules) -> list[str]:
    """All contradictions, in a stable order."""
    return [
        *unfit_keys(rules, rules.key),
        *_unfit_places(rules),
        *_unpublished(rules),
        *_names(rules),
        *_unfit_growth(rules),
        *_unfit_truncates(rules),
    ]


def _unfit_truncates(rules: Rules) -> Iterator[str]:
    if rules.truncates not in ("", OMIT) and rules.operations and "delete" not in rules.operations:
        yield (
            f"truncates is {rules.truncates}, but a TRUNCATE is a delete, which operations omits; add delete "
            "there, or set truncates to omit"
        )
    if rules.truncates == OMIT and rules.on_drop == "delete":
        yield "on_drop is delete, and truncates is omit, which omits that record too; leave out one of the two"


def _unfit_growth(rules: Rules) -> Iterator[str]:
    before, after = rules.repartition_from, rules.partitions
    if before and after <= before:
        yield (
            f"repartition_from is {before} and partitions {after or 'is missing'}; a topic can only get more "
            "partitions"
        )


def unfit_keys(rules: Rules, key: Iterable[str]) -> Iterator[str]:
    """The columns of a key whose action would give different rows one key."""
    for name, action in _merged(rules, key):
        yield (
            f"{name} is of the records' key, and after {action} different rows could "
            "have one key; use hmac, or choose other columns by the rule key"
        )


def _unfit_places(rules: Rules) -> Iterator[str]:
    for name, action in _merged(rules, rules.partition_by):
        yield f"partition_by needs {name}, which {action} hides; use hmac"


def _merged(rules: Rules, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the columns among ``names`` whose different values may be published as one, with their actions."""
    actions = {one.column.lower(): one for one in rules.column_actions}
    for name in names:
        one = actions.get(name.lower())
        if one is not None and not one.kind.keeps_apart:
            yield name, one.action


def _unpublished(rules: Rules) -> Iterator[str]:
    published = {one.lower() for one in rules.columns}
    needed = {
        "the key or the partition needs it": (*rules.key, *rules.partition_by),
        "the row filter reads it": row_filter(rules.row_filter)[1] if rules.row_filter else (),
    }
    for why, names in needed.items():
        for name in names:
            if published and name.lower() not in published:
                yield f"columns omits {name}, but {why}; add it"


def _names(rules: Rules) -> Iterator[str]:
    """Names that two columns would have."""
    renamed = rules.renames
    own = [one for one in rules.columns if one.lower() not in renamed]
    counts = Counter(name.lower() for name in (*renamed.values(), *own))
    for name in sorted(name for name, count in counts.items() if count > 1):
        yield f"two columns would have the name {name!r}; rename one of them to another"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Tag:
    """A tag of a logical table's records."""

    name: str
    column: str = ""
    """The column whose change gives a record the tag; empty: each record has it."""

    @property
    def label(self) -> str:
        """The name, with the column if it has one."""
        return f"{self.name} ({self.column})" if self.column else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalDatabase:
    """A logical database and the real databases that it comprises."""

    name: str
    real: tuple[str, ...] = ()
    """Names and patterns of real databases; empty: the database of the same name."""
    topic: str = ""
    """The topic of all its tables; empty: each table has its own."""
    share_topic: bool = False
    """Whether another logical name may have the same topic."""
    format: str = ""
    """The record format of its tables whose rules name no format; empty: the envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalTable:
    """A logical table and the real tables that it comprises."""

    name: str
    database: str = ""
    """Its logical database; empty: any."""
    real: tuple[str, ...] = ()
    """Names and patterns, each ``table`` or ``database.table``; empty: the table of the same name."""
    topic: str = ""
    share_topic: bool = False
    tags: tuple[Tag, ...] = ()
    rules: Rules = field(default_factory=Rules)

    @property
    def label(self) -> str:
        """The name with the database if it has one."""
        return f"{self.database}.{self.name}" if self.database else self.name
