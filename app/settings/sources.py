"""Settings of a destination's sources: servers, their order, and failover between them.

Invariant: as in ``app/settings/model.py``; a destination has one ``source`` or a list of
``sources``, never both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from app.settings.start import Start
from connectors.secret import FileSecret

Accept = Literal[
    "unproven",
    "replication_filters",
    "binlog_filters",
    "anonymous_transactions",
    "incomplete_start",
    "changed_keys",
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceSettings(_Part):
    """A MySQL server and the account to read it with."""

    host: str = Field(min_length=1)
    port: int = Field(default=3306, ge=1, le=65535)
    user: str = Field(min_length=1)
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    tls: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] = "preferred"
    tls_ca: Path | None = None
    start: Start | None = None
    """The start position without a cursor if this source is read first; unset means the
    destination's own."""

    @model_validator(mode="after")
    def _ca_is_used(self) -> Self:
        if self.tls_ca and not self.tls.startswith("verify"):
            raise ValueError(
                f"tls_ca checks nothing with tls: {self.tls}; use verify_ca or verify_identity"
            )
        if self.tls_ca and not self.tls_ca.is_file():
            raise ValueError(f"tls_ca {self.tls_ca} is not a file")
        return self

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password_file and self.password.get_secret_value():
            raise ValueError("give password or password_file, not both")
        if self.password_file and not self.password_file.is_file():
            raise ValueError(f"password_file {self.password_file} is not a file")
        return self

    def secret(self) -> str:
        """Return the password from the setting or its file."""
        if self.password_file:
            return FileSecret(self.password_file)
        return self.password.get_secret_value()


class HeartbeatSettings(_Part):
    """A statement that checks whether a source responds, over a connection of its own."""

    enabled: bool = True
    sql: str = "SELECT 1"
    interval_seconds: float = Field(default=3.0, ge=0.1, le=3600)
    retries: int = Field(default=3, ge=1, le=1000)
    """Consecutive failures until the source counts as lost."""

    @field_validator("sql")
    @classmethod
    def _is_a_heartbeat(cls, sql: str) -> str:
        first = (sql.split() or [""])[0].upper()
        if first not in ("SELECT", "SHOW", "INSERT", "UPDATE", "REPLACE", "DELETE"):
            raise ValueError(
                "a heartbeat begins with SELECT, SHOW, INSERT, UPDATE, REPLACE or DELETE"
            )
        return sql


class FailoverSettings(_Part):
    """When to switch to another source, and how strictly it is judged."""

    enabled: bool = True
    """Whether failover is automatic; an operator may always request it."""
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    back: bool = False
    """Whether to return to an earlier source of the list once it is fit."""
    back_after_seconds: float = Field(default=60.0, ge=0, le=86_400)
    """Seconds for which it must have been fit, so that an unstable one is left alone."""
    errant: Literal["refuse", "accept"] = "refuse"
    """What to do with a standby that has transactions which the present source lacks."""
    fingerprints: Literal["auto", "on", "off"] = "auto"
    fallback_seconds: float = Field(default=60.0, ge=1, le=86_400)
    """Without GTIDs, seconds before the last transactions at which the search in another source begins."""
    lost_in_replication: Literal["stop", "report"] = "stop"
