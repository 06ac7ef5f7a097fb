"""Rules of one table that exclude each other, whatever its columns are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tables.mapping.filters.syntax import row_filter
from tables.mapping.rules import Rules


def contradictions(rules: Rules) -> list[str]:
    """All of them, in a stable order."""
    return [
        *_masked_and_read(rules),
        *_dropped_and_needed(rules),
        *_unpublished(rules),
        *_names(rules),
    ]


def _masked_and_read(rules: Rules) -> Iterator[str]:
    masked = {
        one.column.lower(): one.action for one in rules.column_actions if one.action != "rename"
    }
    for name in row_filter(rules.row_filter)[1] if rules.row_filter else ():
        if name.lower() in masked:
            yield (
                f"the row filter reads {name}, which is masked by {masked[name.lower()]}; its values "
                "would show in which rows are published"
            )


def _dropped_and_needed(rules: Rules) -> Iterator[str]:
    dropped = {one.column.lower() for one in rules.column_actions if one.action == "drop"}
    for name in (*rules.key, *rules.partition_by):
        if name.lower() in dropped:
            yield f"{name} is dropped, but the key or the partition needs it"


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
    """Columns that would have one name, or an action for a column that is not published."""
    renamed = {
        one.column.lower(): one.argument for one in rules.column_actions if one.action == "rename"
    }
    own = [one for one in rules.columns if one.lower() not in renamed]
    counts = Counter(name.lower() for name in (*renamed.values(), *own))
    for name in sorted(name for name, count in counts.items() if count > 1):
        yield f"two columns would have the name {name!r}; rename one of them to another"
