"""A column's values after several ALTER TABLE statements, one after the other, in one expression.

Invariant: each statement is in the expression once, and the expression's depth grows with the logarithm of
their number. If each statement's expression contained that of the statements before it, Spark would give up
its analysis at some hundred of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_sink.source.altered_kinds import Altered


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one statement makes of a column's values.

    `kind` is the type that the result is cast to. `number` identifies the statement where its result is not
    known. Without `is_known`, no result is known.
    """

    how: Altered
    kind: str
    number: int = 0
    rows: str = ""
    """The condition that a row has the value from before the statement; empty if all rows have it."""
    is_for_all: bool = False
    """Whether the other rows get the result too, because the type changes."""
    is_known: bool = True

    def _value(self, own: str, aside: str, zone: str) -> str:
        new = f"CAST({self.how.value(own, aside=aside, zone=zone)} AS {self.kind})"
        return f"if({self.rows}, {new}, {own})" if self.rows and not self.is_for_all else new

    def _lost(self, own: str, aside: str, zone: str) -> str:
        lost = self.how.lost(own, aside=aside, zone=zone) if self.is_known else "true"
        return f"({self.rows}) AND {lost}" if self.rows else lost


def in_turn(own: str, kind: str, turns: Sequence[Turn], *, aside: str, zone: str) -> str:
    """Return the expression of a struct of the column `own`, of the type `kind`, after one or more statements.

    `value` is the new value; `lost` are the numbers of the statements whose result is not known, an array that
    is empty if all are.
    """
    if len(turns) == 1:
        # Without a lambda function, which Spark interprets for each row.
        (turn,) = turns
        lost = f"if({turn._lost(own, aside, zone)}, array({turn.number}), {_NONE})"
        return f"struct({turn._value(own, aside, zone)} AS value, {lost} AS lost)"
    # Both branches of an `if` and both steps of `aggregate` must have one type: a field for each type.
    kinds = list(dict.fromkeys((kind, *(turn.kind for turn in turns))))
    branches, at = [], kind
    for turn in turns:
        held = f"s.`t{kinds.index(at)}`"
        lost = f"if({turn._lost(held, aside, zone)}, array_append(s.lost, {turn.number}), s.lost)"
        branches.append(_state(kinds, turn.kind, turn._value(held, aside, zone), lost))
        at = turn.kind
    # Spark takes the fields as nullable where the first state's are.
    first = _state(kinds, kind, f"if(false, NULL, {own})", _NONE)
    result = f"struct(s.`t{kinds.index(at)}` AS value, s.lost AS lost)"
    return (
        f"aggregate(sequence(0, {len(turns) - 1}), {first}, "
        f"(s, n) -> {_chosen(branches, 0)}, s -> {result})"
    )


_NONE: Final = "CAST(array() AS array<int>)"


def _state(kinds: Sequence[str], kind: str, value: str, lost: str) -> str:
    """The struct of a value of the type `kind`, and of the statements whose results are not known."""
    fields = (
        f"{value if one == kind else f'CAST(NULL AS {one})'} AS t{number}"
        for number, one in enumerate(kinds)
    )
    return f"struct({', '.join(fields)}, {lost} AS lost)"


def _chosen(branches: Sequence[str], first: int) -> str:
    """The branch of the number `n`; the branches' numbers begin with `first`."""
    if len(branches) == 1:
        return branches[0]
    half = len(branches) // 2
    below, rest = _chosen(branches[:half], first), _chosen(branches[half:], first + half)
    return f"if(n < {first + half}, {below}, {rest})"
