"""The registry of all kinds of journal records.

Invariant: a kind is registered once. Each of its records is then folded into the state, kept in the checkpoint
and announced on every worker as its entry states; a record of a kind that is not registered changes no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tables.history.codec import BASELINE, CHECKPOINT, HISTORY, RESOLVED
from tables.history.logical_schemas.decisions import DECIDED, DECISION
from tables.journal_kind import Kind
from tables.state.cursor import CURSOR
from tables.state.fingerprints import FINGERPRINTS
from tables.state.journal.records import INSTALLATION, LEADER, VERSION
from tables.state.known_topics import TOPIC
from tables.state.mapping_in_force import MAPPING, MAPPING_COPY, MAPPING_REFUSED
from tables.state.merge_cursor import MERGE
from tables.state.operator_requests import CONTROL, INTERVENTION, OUTCOME, RECOVERY, SKIP, SOURCE
from tables.state.quarantine import QUARANTINE, RESOLUTION
from tables.state.snapshots.request import SNAPSHOT_REQUEST
from tables.state.snapshots.snapshot_progress import SNAPSHOT


class Kinds:
    """Kinds of journal records by their names."""

    def __init__(self, kinds: Iterable[Kind[Any]]) -> None:
        """Raise ValueError if two kinds have the same name."""
        self._by_name: dict[str, Kind[Any]] = {}
        for kind in kinds:
            if kind.name in self._by_name:
                raise ValueError(f"two kinds of journal records are called {kind.name!r}")
            self._by_name[kind.name] = kind

    def __iter__(self) -> Iterator[Kind[Any]]:
        return iter(self._by_name.values())

    def named(self, name: str) -> Kind[Any] | None:
        """The kind of this name; None if it is not registered."""
        return self._by_name.get(name)

    def of(self, key: bytes) -> Kind[Any] | None:
        """The kind of a record with this key; None if it is not registered."""
        name, slash, _ = key.partition(b"/")
        return self._by_name.get(name.decode("utf-8", "replace")) if slash else None


KINDS = Kinds(
    (
        INSTALLATION,
        CURSOR,
        VERSION,
        HISTORY,
        BASELINE,
        RESOLVED,
        CHECKPOINT,
        QUARANTINE,
        RESOLUTION,
        FINGERPRINTS,
        LEADER,
        MAPPING,
        MAPPING_COPY,
        MAPPING_REFUSED,
        MERGE,
        DECISION,
        DECIDED,
        CONTROL,
        SKIP,
        SOURCE,
        INTERVENTION,
        RECOVERY,
        OUTCOME,
        SNAPSHOT,
        SNAPSHOT_REQUEST,
        TOPIC,
    )
)
