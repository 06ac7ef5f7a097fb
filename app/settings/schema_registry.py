"""The schema registry of records in Avro."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from connectors.secret import FileSecret
from connectors.store.registry import RegistryAccess


class SchemaRegistrySettings(BaseModel):
    """The connection to a registry that speaks Confluent's protocol; without ``url`` there is none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(default="", pattern=r"^(https?://[^/@\s?#]+(/[^@\s?#]*)?)?$")
    username: str = ""
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    ssl_cafile: Path | None = None
    """Certificates of the authorities that are trusted, in PEM; without it, the system's."""

    @model_validator(mode="after")
    def _has_files(self) -> Self:
        if self.password_file and self.password.get_secret_value():
            raise ValueError("give password or password_file, not both")
        for name in ("password_file", "ssl_cafile"):
            path = getattr(self, name)
            if path is not None and not path.is_file():
                raise ValueError(f"{name} {path} is not a file")
        return self

    def access(self) -> RegistryAccess:
        """Return the connection, for decoders."""
        password = self.password.get_secret_value()
        if self.password_file is not None:
            password = FileSecret(self.password_file)
        return RegistryAccess(
            url=self.url,
            username=self.username,
            password=password,
            ca_file=str(self.ssl_cafile or ""),
        )
