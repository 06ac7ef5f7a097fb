"""An import in progress: settings and mapping as far as they are known, and the findings about keys.

Invariant: an entry is accounted for once a finding names it. An entry without a finding at the end is looked up
among the known keys without a counterpart, and is reported as unknown if it is not among them. So no key is
silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.migrate.yaml_text import Leaf, Value, YamlPath, YamlText
from app.settings.model import faults_of
from connectors.errors import MappingError
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import masks

MAPPING_FILE = "mapping.yaml"
KEY_FILE = "mapping.keys"
_MOST_FAULTS = 100
"""The most rounds in which refused values are removed; each round removes at least one value."""


class Draft:
    """Settings, mapping and findings, as keys are read."""

    def __init__(self) -> None:
        self.settings = YamlText()
        self.mapping = YamlText()
        self._findings: dict[Finding, None] = {}
        self._accounted: set[tuple[str, str]] = set()

    def take(self, entry: Entry, path: YamlPath, value: Value) -> None:
        """Put a setting that a key gives; report it by hand if another key has given another value."""
        if self.settings.put(path, value, entry.origin):
            self._add(Outcome.TAKEN, entry, dotted(path))
        else:
            self.by_hand(entry, f"{dotted(path)} has another value already, which is kept")

    def take_rule(self, entry: Entry, path: YamlPath, value: Value) -> None:
        """Put a part of the mapping that a key gives; report it by hand if it has another value already."""
        if self.mapping.put(path, value, entry.origin):
            self._add(Outcome.TAKEN, entry, f"mapping: {dotted(path)}")
        else:
            self.by_hand(entry, f"mapping: {dotted(path)} has another value already, which is kept")

    def choose(self, path: YamlPath, value: Value, reason: str) -> None:
        """Put a setting that no key gives, and report it to be decided by hand."""
        if not self.settings.has(path):
            self.settings.put(path, value, "chosen; see the report")
            self.note(dotted(path), reason)

    def instead(self, entry: Entry, text: str) -> None:
        """Report that a key has no counterpart."""
        self._add(Outcome.INSTEAD, entry, text)

    def lose(self, entry: Entry, text: str) -> None:
        """Report what readers of the records would miss or see differently."""
        self._add(Outcome.LOST, entry, text)

    def by_hand(self, entry: Entry, text: str) -> None:
        """Report what an operator has to do about a key."""
        self._add(Outcome.BY_HAND, entry, text)

    def note(self, subject: str, text: str) -> None:
        """Report what an operator has to do, where no key is the reason."""
        self._findings[Finding(outcome=Outcome.BY_HAND, key=subject, file="", text=text)] = None

    def is_accounted(self, entry: Entry) -> bool:
        """Return whether a finding names an entry."""
        return (entry.key, entry.file) in self._accounted

    def account(self, entries: Iterable[tuple[str, Entry]], known: KnownKeys) -> None:
        """Report each entry that has no finding yet, by its plain name."""
        for name, entry in entries:
            if self.is_accounted(entry):
                continue
            text = known.sentence(name)
            if text is None:
                self._add(Outcome.UNKNOWN, entry, "not a key that this import knows")
            else:
                self.instead(entry, text if entry.value else EMPTY)

    def result(self, *, settings_head: Iterable[str], mapping_head: Iterable[str]) -> Imported:
        """Return the result, without values that Aqueduct's settings refuse."""
        self._drop_refused()
        self._name_mapping()
        return Imported(
            settings=self.settings.text(settings_head),
            mapping=self.mapping.text(mapping_head) if self.mapping else "",
            findings=tuple(self._findings),
        )

    def _name_mapping(self) -> None:
        """Name the mapping in the settings, and report what a worker would refuse in it."""
        if not self.mapping:
            return
        where = "relative to the folder of the settings file"
        self.choose(("mapping", "file"), MAPPING_FILE, where)
        try:
            mapping = from_yaml(self.mapping.text())
        except MappingError as error:
            for fault in error.faults:
                self.note(MAPPING_FILE, fault)
            return
        actions = [one for table in mapping.tables for one in table.rules.column_actions]
        if masks(actions):
            ids = sorted({one.argument for one in actions if one.kind.is_keyed}) or ["k1"]
            lines = " and ".join(f"`{one}: KEY`" for one in ids)
            made = "each KEY from `openssl rand -base64 32`"
            self.choose(("mapping", "key_file"), KEY_FILE, f"write {lines} into it, {made}")

    def _drop_refused(self) -> None:
        for _ in range(_MOST_FAULTS):
            faults = faults_of(self.settings.values())
            removed = [leaf for path, text in faults[:1] for leaf in self._drop(path, text)]
            if not removed:
                return

    def _drop(self, where: YamlPath, text: str) -> list[Leaf]:
        """Remove the value that a fault is about; if there is no value, only report the fault."""
        path = self.settings.deepest(where)
        is_start = path[-1:] == ("start",)
        if self.settings.get(path) is None and not is_start:
            self.note(dotted(where) or "settings", text)
            return []
        removed = self.settings.remove(path)
        origins = ", ".join(sorted({leaf.origin for leaf in removed}))
        self._take_back(dotted(path))
        self.note(dotted(path), f"not taken over from {origins}: {text}")
        if is_start:
            self.choose(
                path, "earliest", "begins with the oldest change until a position is written"
            )
        return removed

    def _take_back(self, path: str) -> None:
        """Remove the findings that report a value as taken over."""
        for one in [one for one in self._findings if one.outcome is Outcome.TAKEN]:
            if one.text == path or one.text.startswith(f"{path}."):
                del self._findings[one]

    def _add(self, outcome: Outcome, entry: Entry, text: str) -> None:
        self._accounted.add((entry.key, entry.file))
        found = Finding(outcome=outcome, key=entry.key, file=entry.file, text=text)
        self._findings[found] = None


class KnownKeys:
    """All keys that an import knows, each with what Aqueduct does instead if it is not taken over.

    A name that ends with a dot is a prefix.
    """

    def __init__(self, sentences: Mapping[str, str]) -> None:
        self._exact = {key.lower(): text for key, text in sentences.items() if key[-1:] != "."}
        self._prefixes = {key.lower(): text for key, text in sentences.items() if key[-1:] == "."}

    def sentence(self, name: str) -> str | None:
        """Return what is done instead of a key; None if it is unknown."""
        name = name.lower()
        if name in self._exact:
            return self._exact[name]
        fitting = [prefix for prefix in self._prefixes if name.startswith(prefix)]
        return self._prefixes[max(fitting, key=len)] if fitting else None


def dotted(path: YamlPath) -> str:
    """Return a path as reports name it."""
    return ".".join(map(str, path))


# What an import found about each key of a configuration: taken over, replaced, to be set by hand,
# unknown.
#
# Invariant: no finding has a value of the configuration that may be a secret.


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
