"""The commit times and numbers of a destination's changes, by which its lag is measured.

Invariant: numbers are ordered by (epoch, seq), as everywhere in the sink.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Place = tuple[int, int]
"""Epoch and seq of a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Some changes of one destination: their first and last commit time (ms), and the highest (epoch, seq)."""

    oldest_ms: int
    newest_ms: int
    place: Place

    def joined(self, other: Progress) -> Progress:
        """Return the progress of both sets of changes."""
        return Progress(
            oldest_ms=min(self.oldest_ms, other.oldest_ms),
            newest_ms=max(self.newest_ms, other.newest_ms),
            place=max(self.place, other.place),
        )


def total(parts: Iterable[Mapping[str, Progress]]) -> dict[str, Progress]:
    """Return the progress of each destination in several sets of changes."""
    found: dict[str, Progress] = {}
    for part in parts:
        for destination, one in part.items():
            found[destination] = found[destination].joined(one) if destination in found else one
    return found
