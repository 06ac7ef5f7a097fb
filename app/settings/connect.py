"""The form of records in the format ``connect``: a connector's modes and its converter's."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from app.settings.connect_form import ConnectForm
from connectors.mysql.types.registry import Modes


class ConnectSettings(BaseModel):
    """A connector's modes of values, by their values in Debezium, and the schemas of its converter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decimal: Literal["precise", "string", "double"] = "precise"
    """``decimal.handling.mode``."""
    decimal_format: Literal["base64", "numeric"] = "base64"
    """``value.converter.decimal.format``."""
    time: Literal[
        "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"
    ] = "adaptive_time_microseconds"
    """``time.precision.mode``."""
    bigint_unsigned: Literal["long", "precise"] = "long"
    """``bigint.unsigned.handling.mode``."""
    binary: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    """``binary.handling.mode``."""
    adjust_years: bool = True
    """``enable.time.adjuster``."""
    source_name: str = ""
    """``topic.prefix``, which is ``source.name``; empty: the destination."""
    key_schemas: bool = False
    """``key.converter.schemas.enable``."""
    value_schemas: bool = False
    """``value.converter.schemas.enable``."""
    tombstones: bool = True
    """``tombstones.on.delete``."""

    unwrap: bool = False
    """Whether records are the row alone, as with the transform ExtractNewRecordState."""

    def form(self) -> ConnectForm:
        """Return the form for the pipeline."""
        return ConnectForm(
            modes=Modes(
                decimal=self.decimal,
                time=self.time,
                bigint_unsigned=self.bigint_unsigned,
                binary=self.binary,
                decimal_format=self.decimal_format,
                adjusts_years=self.adjust_years,
            ),
            name=self.source_name,
            key_schemas=self.key_schemas,
            value_schemas=self.value_schemas,
            tombstones=self.tombstones,
            unwrap=self.unwrap,
        )
