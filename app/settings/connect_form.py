"""How records in the format ``connect`` are written: a Debezium connector's modes, and its JSON converter's.

Invariant: plain values; the defaults are those of Debezium, and of a converter without schemas.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The forms of values; the defaults are Debezium's."""

    decimal: str = "precise"
    time: str = "adaptive_time_microseconds"
    bigint_unsigned: str = "long"
    binary: str = "bytes"
    decimal_format: str = "base64"
    """Of the converter of values; keys always have base64."""
    adjusts_years: bool = True
    """Whether years of two digits are of this century or the last."""


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
