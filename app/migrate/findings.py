"""What an import found about each key of a configuration: taken over, replaced, to be set by hand, unknown.

Invariant: no finding has a value of the configuration that may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What an import did with a key."""

    LOST = "cannot be kept"
    TAKEN = "taken over"
    INSTEAD = "without counterpart"
    BY_HAND = "to be set by hand"
    UNKNOWN = "unknown"


_MEANINGS = {
    Outcome.LOST: "Cannot be kept: what readers of the topics would see; each is accepted by --accept KEY:",
    Outcome.TAKEN: "Taken over:",
    Outcome.INSTEAD: "Without counterpart, and what Aqueduct does instead:",
    Outcome.BY_HAND: "To be set or decided by hand:",
    Outcome.UNKNOWN: "Unknown keys, which have no effect here:",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key of a configuration with its value."""

    key: str
    """As written in its file."""
    value: str
    file: str

    @property
    def origin(self) -> str:
        """The key and its file, as comments name them."""
        return f"{self.key} ({self.file})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An outcome, for a key or for a setting that no key gives."""

    outcome: Outcome
    key: str
    file: str
    text: str

    @property
    def line(self) -> str:
        """The finding as a line of the report."""
        return f"{self.key} ({self.file}): {self.text}" if self.file else f"{self.key}: {self.text}"


EMPTY = "empty, so the default applies"
"""The text of a finding about a key without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of an import: the texts of the files to write, and the report."""

    settings: str
    mapping: str
    """Empty if nothing in the configuration belongs in a mapping."""
    findings: tuple[Finding, ...]

    def of(self, outcome: Outcome) -> list[Finding]:
        """Return the findings with an outcome."""
        return [one for one in self.findings if one.outcome is outcome]

    def lines(self) -> Iterator[str]:
        """Return the report as text."""
        for outcome, heading in _MEANINGS.items():
            if found := self.of(outcome):
                yield from (heading, *(f"  {line}" for line in _lines(found)), "")

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            outcome.name.lower(): [
                {"key": one.key, "file": one.file, "text": one.text} for one in self.of(outcome)
            ]
            for outcome in Outcome
        }


def _lines(findings: list[Finding]) -> Iterator[str]:
    """A line for each finding, and one for all keys without a value."""
    yield from (one.line for one in findings if one.text != EMPTY)
    if empty := [one.key for one in findings if one.text == EMPTY]:
        yield f"{EMPTY}: {', '.join(empty)}"
