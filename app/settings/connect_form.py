"""How records in the format ``connect`` are written: a Debezium connector's modes, and its JSON converter's.

Invariant: plain values; the defaults are those of Debezium, and of a converter without schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.mysql.types.registry import Modes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectForm:
    """How a connector's records are written."""

    modes: Modes = field(default_factory=Modes)
    name: str = ""
    """``source.name``, the connector's topic.prefix; empty: the destination."""
    key_schemas: bool = False
    value_schemas: bool = False
    tombstones: bool = True
    unwrap: bool = False
    """Whether a value is the row alone, null after a delete, and no tombstone follows."""
