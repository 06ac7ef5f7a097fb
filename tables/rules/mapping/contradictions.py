"""Rules of one table that exclude each other, whatever its columns are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tables.rules.mapping.filters.syntax import row_filter
from tables.rules.mapping.rules import OMIT, Rules


def contradictions(rules: Rules) -> list[str]:
    """All of them, in a stable order."""
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


_NO_KEYS = ("truncate", "redact", "drop")
"""Actions after which different rows could have one key; an HMAC keeps them apart."""


def unfit_keys(rules: Rules, key: Iterable[str]) -> Iterator[str]:
    """The columns of a key whose action would give different rows one key."""
    actions = {one.column.lower(): one.action for one in rules.column_actions}
    for name in key:
        if actions.get(name.lower()) in _NO_KEYS:
            yield (
                f"{name} is of the records' key, and after {actions[name.lower()]} different rows could "
                "have one key; use hmac, or choose other columns by the rule key"
            )


def _unfit_places(rules: Rules) -> Iterator[str]:
    actions = {one.column.lower(): one.action for one in rules.column_actions}
    for name in rules.partition_by:
        if actions.get(name.lower()) in _NO_KEYS:
            yield f"partition_by needs {name}, which {actions[name.lower()]} hides; use hmac"


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
