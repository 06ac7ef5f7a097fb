"""The result of a trial, as lines and as JSON with the same content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.operator.operations.mapping.trial.comparison import Respect
from app.operator.operations.mapping.trial.published import STATEMENTS
from app.operator.operations.mapping.trial.shown_values import ShownField
from app.operator.operations.mapping.trial.tally import (
    Counts,
    Sample,
    ShownRecord,
    TableDifferences,
)
from app.operator.operations.mapping.trial.trial import Trial
from app.operator.output import aligned_table, time_text
from connectors.mysql.ddl.definition import TableName

_HEAD = ("OLD", "NEW", "EQUAL", *(respect.value.upper() for respect in Respect), "TABLE")


def trial_lines(found: Trial) -> list[str]:
    """Return the result as lines; the last one has the totals."""
    until = f", committed up to {time_text(found.committed_ms)}" if found.committed_ms else ""
    lines = [
        f"{found.destination}: compared with {found.in_force}",
        f"read from {found.begin.coordinates} to {found.end.coordinates}{until}",
    ]
    if found.tables:
        lines += ["", *aligned_table(_HEAD, [_row(one) for one in found.tables])]
    for name, why in found.quarantined.items():
        lines += ["", f"{'.'.join(name)} would be quarantined: {why}"]
    for name, why in found.not_compared.items():
        lines += ["", f"{'.'.join(name)} could not be compared: {why}"]
    for table in found.tables:
        lines += _sample_lines(table)
    return [*lines, "", _total_line(found.totals)]


def trial_value(found: Trial) -> dict[str, Any]:
    """Return the result as JSON."""
    return {
        "destination": found.destination,
        "in_force": found.in_force,
        "from": _position(found.begin.coordinates, found.begin.gtid_set),
        "to": _position(found.end.coordinates, found.end.gtid_set),
        "committed": time_text(found.committed_ms) if found.committed_ms else None,
        "totals": _counts(found.totals),
        "tables": [_table(one) for one in found.tables],
        "quarantined": {".".join(name): why for name, why in found.quarantined.items()},
        "not_compared": {".".join(name): why for name, why in found.not_compared.items()},
    }


def _name(table: TableName) -> str:
    return "(statements)" if table == STATEMENTS else ".".join(table)


def _numbers(counts: Counts) -> list[int]:
    return [
        counts.old,
        counts.new,
        counts.equal,
        *(counts.by_respect[respect] for respect in Respect),
    ]


def _row(one: TableDifferences) -> list[str]:
    return [*map(str, _numbers(one.counts)), _name(one.table)]


def _total_line(counts: Counts) -> str:
    names = ("old", "new", "equal", *(respect.value for respect in Respect))
    pairs = zip(names, _numbers(counts), strict=True)
    return "trial: " + " ".join(f"{name}={number}" for name, number in pairs)


def _sample_lines(table: TableDifferences) -> Iterator[str]:
    for respect in Respect:
        samples = table.samples.get(respect, ())
        if samples:
            yield ""
            yield f"{_name(table.table)}, {respect.value}: {len(samples)} of {table.counts.by_respect[respect]}"
        for sample in samples:
            yield f"  {sample.change_id}" + (f"  {sample.reason}" if sample.reason else "")
            if sample.old is not None:
                yield f"    old  {_record_text(sample.old)}"
            if sample.new is not None:
                yield f"    new  {_record_text(sample.new)}"
            yield from (f"    {_field_text(field)}" for field in sample.fields)


def _record_text(one: ShownRecord) -> str:
    return f"{one.op}  {one.topic} [{one.partition}]  {one.key or 'no key'}"


def _field_text(one: ShownField) -> str:
    return f"{one.name}: {one.old}" + (f" -> {one.new}" if one.new != one.old else "")


def _counts(counts: Counts) -> dict[str, int]:
    return {
        "old": counts.old,
        "new": counts.new,
        "equal": counts.equal,
        **{respect.value: counts.by_respect[respect] for respect in Respect},
        "refused_by_both": counts.refused_by_both,
    }


def _table(one: TableDifferences) -> dict[str, Any]:
    return {
        "table": _name(one.table),
        **_counts(one.counts),
        "samples": {
            respect.value: [_sample(sample) for sample in samples]
            for respect, samples in one.samples.items()
        },
    }


def _sample(one: Sample) -> dict[str, Any]:
    return {
        "change_id": one.change_id,
        "old": one.old and _record(one.old),
        "new": one.new and _record(one.new),
        "fields": [{"name": each.name, "old": each.old, "new": each.new} for each in one.fields],
        "reason": one.reason or None,
    }


def _record(one: ShownRecord) -> dict[str, Any]:
    return {"topic": one.topic, "partition": one.partition, "key": one.key, "op": one.op}


def _position(coordinates: object, gtids: object) -> dict[str, Any]:
    return {"position": str(coordinates), "gtid_set": None if gtids is None else str(gtids)}
