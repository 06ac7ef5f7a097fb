"""What is done with a record that cannot go out as it is.

The law: by default nothing goes out but whole; each other way is chosen for a destination.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class RecordSettings(BaseModel):
    """Of one destination."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    oversize: Literal["stop", "claim_check", "key_only"] = "stop"
    """Of a row whose record is larger than its topic takes."""
    claim_check_path: Path | None = None
    """The folder for the values of such records."""
    poison: Literal["stop", "dead_letter"] = "stop"
    """Of a row that cannot be decoded."""
    poison_limit: int = Field(default=10, ge=1, le=10_000)
    """How many of them may be put among the dead letters in an hour."""

    @model_validator(mode="after")
    def _has_a_folder(self) -> Self:
        path = self.claim_check_path
        if self.oversize == "claim_check" and path is None:
            raise ValueError("oversize: claim_check needs claim_check_path")
        if path is not None and not path.is_dir():
            raise ValueError(f"claim_check_path {path} is not a folder")
        return self
