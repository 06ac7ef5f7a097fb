"""Settings of ZooKeeper, through which several workers share the destinations.

Invariant: as in ``app/settings/model.py``; without hosts there is one worker, and it runs all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from connectors.secret import FileSecret


class ZooKeeperSettings(BaseModel):
    """The connection to ZooKeeper."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: str = ""
    """``host:port`` of each server, with commas; empty: none, and one worker runs everything."""
    root: str = Field(default="/aqueduct", pattern=r"^(/[\w.-]+)+$")
    session_timeout_seconds: float = Field(default=6.0, ge=1, le=60)
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    balance_delay_seconds: float = Field(default=5.0, ge=0, le=3600)

    @field_validator("hosts")
    @classmethod
    def _no_account(cls, hosts: str) -> str:
        if "@" in hosts:
            raise ValueError(
                "an address is without user and password, since messages have it: set username and "
                "password_file"
            )
        return hosts

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password_file and self.password.get_secret_value():
            raise ValueError("give password or password_file, not both")
        if self.password_file and not self.password_file.is_file():
            raise ValueError(f"password_file {self.password_file} is not a file")
        if bool(self.username) != bool(self.secret()):
            raise ValueError("a username needs a password, and a password a username")
        return self

    def secret(self) -> str:
        """Return the password from the setting or its file."""
        if self.password_file:
            return FileSecret(self.password_file)
        return self.password.get_secret_value()
