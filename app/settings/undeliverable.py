"""What is done with a record that cannot go out as it is.

The law: by default nothing goes out but whole; each other way is chosen for a destination.
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
"""What botocore takes; it says so only once the first value comes, and by an error without a name."""


class S3Settings(BaseModel):
    """How a claim store in a bucket is reached. What is empty is looked for where all programs for S3 do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str = Field(default="", pattern=r"^(https?://[^/@\s?#]+(/[^@\s?#]*)?)?$")
    """The server's URL; empty: AWS's own of the region."""
    region: str = ""
    profile: str = ""
    """Of the files of credentials."""

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
    """Of one destination."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    oversize: Literal["stop", "claim_check", "key_only"] = "stop"
    """Of a row whose record is larger than its topic takes."""
    claim_check_path: str | None = None
    """The folder for the values of such records, or ``s3://bucket/prefix``."""
    claim_check_s3: S3Settings = S3Settings()
    poison: Literal["stop", "dead_letter"] = "stop"
    """Of a row that cannot be decoded."""
    poison_limit: int = Field(default=10, ge=1, le=10_000)
    """How many of them may be put among the dead letters in an hour."""

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
        """Where the store is: an absolute path, or the bucket's URI."""
        path = self.claim_check_path or ""
        return path.rstrip("/") if "://" in path else str(Path(path).absolute())
