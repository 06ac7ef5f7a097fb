"""States of a destination, folded from what operators and runs have written."""

from __future__ import annotations

from connectors.kafka.reading import StoredRecord
from tables.state.journal.state import DestinationState, fold
from tables.state.operator_requests import Skip, skip_note


def state_with(*skips: Skip) -> DestinationState:
    """A destination of which these skips were asked for."""
    return fold("shop", (StoredRecord(*skip_note(one), at) for at, one in enumerate(skips)))
