"""The impact of a change on the key of a table's records.

Invariant: the key is the one in the binlog: the primary key, or the unique key used in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from connectors.mysql.charset.lower_case import lowered
from connectors.mysql.ddl.definition import Table
from connectors.mysql.schema.row_key import row_key
from tables.history.impact.finding import Finding, Severity
from tables.history.impact.type_change import Relation, kind_of, relation

_ANOTHER_KEY = (
    "The same row has another key: it may be in another partition, and compaction keeps the "
    "old record too."
)


def key_findings(old: Table, new: Table, values: Mapping[str, Relation]) -> Iterator[Finding]:
    """Yield the differences in keys and, without a key, in how rows are identified.

    ``values``: the relation of masked columns' values, which their types do not have.
    """
    before, after = row_key(old), row_key(new)
    if before != after:
        yield _changed(before, after)
    elif before:
        yield from _of_columns(old, new, after, values)
    elif _shape(old) != _shape(new):
        yield _KEYLESS


def _changed(before: Sequence[str], after: Sequence[str]) -> Finding:
    consumers = {
        (True, False): "Records had no key and were in partition 0; now they have one.",
        (
            False,
            True,
        ): "Records no longer have a key, and all are in partition 0, without tombstones.",
    }.get(
        (not before, not after),
        _ANOTHER_KEY,
    )
    same = sorted(map(str.lower, before)) == sorted(map(str.lower, after))
    return Finding(
        kind="key changed",
        severity=Severity.BREAKING,
        old=_listed(before),
        new=_listed(after),
        consumers=consumers,
        warehouse="Nothing: the columns are the same."
        if same
        else "The table waits in the sink with KeyChanged, until it is reloaded there.",
        warehouse_columns=tuple(after),
    )


def _of_columns(
    old: Table, new: Table, key: Sequence[str], values: Mapping[str, Relation]
) -> Iterator[Finding]:
    before, after = ({c.name: c for c in table.columns} for table in (old, new))
    for name in key:
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            continue
        found = values.get(name) or relation(kind_of(one), kind_of(other))
        if found is Relation.OTHER_FORM:
            yield Finding(
                kind="key written otherwise",
                severity=Severity.BREAKING,
                column=name,
                old=one.type if one.type != other.type else None,
                new=other.type if one.type != other.type else None,
                consumers=_ANOTHER_KEY,
                warehouse="Existing rows may not be found by their keys; reload the table.",
                warehouse_columns=(name,),
            )
        elif one.collation != other.collation and other.collation is not None:
            yield Finding(
                kind="key collation changed",
                severity=Severity.CAREFUL,
                column=name,
                old=one.collation,
                new=other.collation,
                consumers="Keys that were one to the source may be two, or two one; to Kafka they are text.",
                warehouse="Nothing: keys are compared as text.",
                warehouse_columns=(name,),
            )


def _listed(key: Sequence[str]) -> str:
    return f"({', '.join(key)})" if key else "none"


def _shape(table: Table) -> list[tuple[str, str]]:
    return [(lowered(column.name), column.type) for column in table.columns]


_KEYLESS = Finding(
    kind="rows without a key",
    severity=Severity.BREAKING,
    consumers="Records have no key; a reader that finds rows by all their columns does not find existing ones.",
    warehouse="Existing rows no longer match the images that delete them; reload the table.",
)
