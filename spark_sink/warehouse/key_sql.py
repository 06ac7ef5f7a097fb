"""SQL of keys and floors, for the fold of a batch and for MERGE alike.

Invariant: two rows have the same key exactly where these expressions are equal.
"""

from __future__ import annotations

from spark_sink.names import literal, quoted
from spark_sink.warehouse.evolve import Shape


def below_sql(destination: str, floor: tuple[int, int]) -> str:
    """Whether a row's change came before a truncate of its table."""
    epoch, seq = floor
    return (
        f"(__destination = {literal(destination)} AND "
        f"(__epoch < {epoch} OR (__epoch = {epoch} AND __seq < {seq})))"
    )


def key_parts(shape: Shape, alias: str) -> list[str]:
    """Expressions that are equal exactly where two rows have the same key."""
    types = dict(shape.columns)
    parts = [f"{alias}{quoted(name)}" for name in shape.key]
    # A zero date is NULL with its text aside, and a part of the key all the same.
    parts += [
        f"try_element_at({alias}__unrepresentable, {literal(name)})"
        for name in shape.key
        if types[name] in {"date", "timestamp", "timestamp_ntz"}
    ]
    return parts
