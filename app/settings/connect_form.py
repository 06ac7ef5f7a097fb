"""The form of records in the format ``connect``: the modes of a Debezium connector and of its JSON converter.

Invariant: plain values only. The defaults are Debezium's, with a converter that writes no schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.mysql.types.registry import Modes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectForm:
    """The form of a connector's records."""

    modes: Modes = field(default_factory=Modes)
    name: str = ""
    """``source.name`` of the records, the connector's topic.prefix; if empty, the destination's name."""
    key_schemas: bool = False
    value_schemas: bool = False
    tombstones: bool = True
    unwrap: bool = False
    """Whether a value is the row alone; a delete's value is null, and no tombstone follows it."""
