"""Settings of the rows that exist already: whether, when and how fast they are read.

Invariant: as in ``app/settings/model.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from connectors.mysql.select.spool import DEFAULT_BYTES


class SnapshotSettings(BaseModel):
    """The rows that exist before the first start, or before a table is captured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Literal["never", "no_data", "initial", "initial_only", "when_needed", "recovery"] = (
        "never"
    )
    """``initial``: they are published at the first start, while the stream continues; ``initial_only``: and
    then the destination stops; ``when_needed``: also after the source has purged changes that were not read
    yet. ``no_data``: as ``never``, from the end of the binlog on. ``recovery``: none are published, and the
    schema history begins again at the cursor."""
    new_tables: bool = False
    """Whether those of tables that are captured later are published too."""
    signal_table: str | None = None
    """A captured table, ``database.table``, in which rows are requests for snapshots."""
    rows_per_second: int = Field(default=0, ge=0)
    """Of all tables together; 0: no limit, as for those that follow."""
    max_threads_running: int = Field(default=25, ge=0)
    """Threads that run at the source while rows are read."""
    max_probe_ms: int = Field(default=250, ge=0)
    """Milliseconds in which the source answers a trivial query."""
    max_replica_lag_seconds: int = Field(default=0, ge=0)
    """Seconds that a source which is a replica may be late."""
    spool_dir: Path | None = None
    """The folder for the rows of tables without a key, until they enter the stream; None: ``data_dir``."""
    max_spool_bytes: int = Field(default=DEFAULT_BYTES, ge=1)
    """Bytes of one table's rows there."""

    @model_validator(mode="after")
    def _has_a_first(self) -> Self:
        if self.new_tables and not (self.is_initial or self.recovers):
            raise ValueError(
                f"snapshot.new_tables is for destinations that began with their rows, and mode is {self.mode}"
            )
        return self

    @property
    def is_initial(self) -> bool:
        """Return whether the first start publishes them."""
        return self.mode in ("initial", "initial_only", "when_needed")

    @property
    def recovers(self) -> bool:
        """Return whether the schema history is to begin again at the cursor."""
        return self.mode == "recovery"

    @property
    def signals(self) -> tuple[str, str] | None:
        """Return database and table of the signal table."""
        if self.signal_table is None:
            return None
        database, _, table = self.signal_table.partition(".")
        return database, table

    @field_validator("signal_table")
    @classmethod
    def _is_a_table(cls, name: str | None) -> str | None:
        if name is not None and not all(name.partition(".")):
            raise ValueError(f"{name!r} is no table; write database.table")
        return name
