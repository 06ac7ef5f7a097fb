"""What a destination's runs are given, and what reaches one from outside.

The law: a plan never changes; signals are written by whoever learns something, and read by the run alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.mandate import Mandate
from app.pipeline.rules import Rules
from app.publisher import TopicPlans
from connectors.errors import Fenced
from connectors.mysql.server import SourceAddress
from connectors.mysql.start import Start
from tables.control import Control
from tables.quarantine import Resolution
from tables.schema_checkpoint import CheckpointPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a destination's run needs to know, from the settings."""

    name: str
    worker: str
    address: SourceAddress
    start: Start
    rules: Rules
    topics: TopicPlans
    kafka_options: Mapping[str, Any]
    compression: str | None
    interval: float
    """Seconds between two Kafka transactions, at the least."""
    decoders: int
    """Processes that decode; 0 decodes in the worker's own."""
    history: CheckpointPolicy | None = field(default_factory=CheckpointPolicy)
    """How the schema history is kept; None keeps none."""


@dataclass(slots=True)
class Signals:
    """What reaches a run from outside, through the journal."""

    epoch: int = 0
    """The one this worker leads in; 0 before it does."""
    superseded_by: int = 0
    resolution: Resolution | None = None
    """What a person has said last of a table that is set aside."""
    mandate: Mandate = field(default_factory=Mandate)
    """Whether this worker may write."""
    control: Control | None = None
    """The last word of a person on the destination."""

    def check(self) -> None:
        """Raise Fenced where another worker leads."""
        self.mandate.check()
        if self.superseded_by:
            raise Fenced(f"epoch {self.superseded_by} is in the journal, this is {self.epoch}")
