"""Portions that enter at one position, one directly after the other, each made once a decoder takes it.

Invariant: nothing else of the stream is between them, however long they take; so the stream waits for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.worker.pipeline.portions.portion import Portion


@dataclass(frozen=True, slots=True)
class PortionSeries:
    """Some portions."""

    portions: Iterable[Portion]
    """Taken by the reader's thread."""


def portions_of(entering: Portion | PortionSeries) -> Iterable[Portion]:
    """Return the portions of a series, or the one portion."""
    return entering.portions if isinstance(entering, PortionSeries) else (entering,)
