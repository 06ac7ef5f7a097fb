"""Merges: destinations whose rows are published in one order."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class MergeSettings(BaseModel):
    """One group of destinations, and how long they wait for each other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    destinations: tuple[str, ...] = Field(min_length=2)
    wait_seconds: float = Field(default=1.0, ge=0, le=3600)
    """How long a row waits for earlier ones of other destinations."""
    stalled: Literal["pass", "wait"] = "pass"
    """Whether a destination that lags far is passed, or waited for without limit."""
    stalled_after_seconds: float = Field(default=15.0, ge=3, le=86_400)
    """The lag from which on a destination counts as stalled."""
    accept: tuple[Literal["records_gone"], ...] = ()
    """Named risks of losing changes that are accepted."""

    @model_validator(mode="after")
    def _are_distinct(self) -> Self:
        if len(set(self.destinations)) < len(self.destinations):
            raise ValueError("a destination is named twice")
        return self
