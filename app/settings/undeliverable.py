"""The handling of records that cannot be delivered as they are.

Invariant: by default only whole records are published; each other way is chosen for a destination.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_BUCKET = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]{1,62}(/[A-Za-z0-9._-]+)*/?")
"""Names that are the same in a URI, in an object's key and in a path."""
_LABEL = r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)"
_HOST = re.compile(rf"(?=.{{1,255}}$)({_LABEL}\.)*{_LABEL}\.?")
"""What botocore accepts; it fails only at the first value, with an unnamed error."""


class S3Settings(BaseModel):
    """The connection to a claim check store in a bucket. Empty fields are taken from S3's usual sources."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = Field(default="", pattern=r"^(https?://[^/@\s?#]+(/[^@\s?#]*)?)?$")
    """The server's URL; empty: AWS's own for the region."""
    region: str = ""
    profile: str = ""
    """The profile in the files of credentials."""

    @field_validator("endpoint")
    @classmethod
    def _has_a_host(cls, endpoint: str) -> str:
        try:
            parts = urlsplit(endpoint)
            host, _ = parts.hostname or "", parts.port
            if "[" in parts.netloc:
                ipaddress.IPv6Address(host)
                return endpoint
        except ValueError as error:
            raise ValueError(f"{endpoint} is no URL of a server: {error}") from None
        if endpoint and not _HOST.fullmatch(host):
            raise ValueError(
                f"{endpoint}: a host's name has letters, digits, hyphens and dots, and no _"
                f" (give {host!r} another name, or its address)"
            )
        return endpoint


class RecordSettings(BaseModel):
    """The record settings of one destination."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    oversize: Literal["stop", "claim_check", "key_only"] = "stop"
    """For a row whose record is larger than its topic accepts."""
    claim_check_path: str | None = None
    """The folder for the values of such records, or ``s3://bucket/prefix``."""
    claim_check_s3: S3Settings = S3Settings()
    truncates: Literal["record", "omit", "deletes"] = "record"
    """What is published of a TRUNCATE, unless the mapping has a rule."""
    poison: Literal["stop", "dead_letter"] = "stop"
    """For a row that cannot be decoded."""
    poison_limit: int = Field(default=10, ge=1, le=10_000)
    """The maximum number of undecodable rows sent to the dead letters in an hour."""

    @field_validator("claim_check_path", mode="before")
    @classmethod
    def _as_text(cls, path: object) -> object:
        return str(path) if isinstance(path, Path) else path

    @model_validator(mode="after")
    def _has_a_store(self) -> Self:
        path = self.claim_check_path
        if path is None:
            if self.oversize == "claim_check":
                raise ValueError("oversize: claim_check needs claim_check_path")
        elif "://" in path:
            if not _BUCKET.fullmatch(path) or "/../" in f"{path}/":
                raise ValueError(
                    f"claim_check_path {path} is neither a folder nor s3://bucket/prefix"
                )
        elif not Path(path).is_dir():
            raise ValueError(f"claim_check_path {path} is not a folder")
        return self

    @property
    def claims(self) -> str:
        """Return the store's location: an absolute path, or the bucket's URI."""
        path = self.claim_check_path or ""
        return path.rstrip("/") if "://" in path else str(Path(path).absolute())
