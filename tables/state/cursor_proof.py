"""Proof of a cursor: evidence that a server's binlog is still the one that was read.

Invariant: it is written with the cursor, in the Kafka transaction of the rows before it. A cursor
without it is readable; the next run adds what the server reports then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from connectors.mysql.landmark import Landmark
from connectors.mysql.lookup.fingerprint.recent import KEPT, Recent
from connectors.mysql.position import Coordinates


@dataclass(frozen=True, slots=True, kw_only=True)
class FileHead:
    """A binlog file, as its first event identifies it."""

    file: str
    created: int
    """The time of its creation, seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorProof:
    """The recorded facts of the binlog before a cursor."""

    landmark: Landmark | None = None
    """The last transaction before it."""
    head: FileHead | None = None
    """The newest file whose beginning was read, or in which the run began; the last transaction may be in an
    earlier one, or in none."""
    recent: tuple[Recent, ...] = ()
    """The last published transactions that have GTIDs, oldest first."""
    by_gtids_to: Coordinates | None = None
    """Up to here the binlog may contain transactions that were published from another server, so it
    is read by GTIDs; after it, by file and offset."""

    @property
    def is_empty(self) -> bool:
        """Whether it proves nothing."""
        return self.landmark is None and self.head is None

    def after(
        self, landmark: Landmark | None, recent: Iterable[Recent], head: FileHead | None = None
    ) -> CursorProof:
        """The proof once these were published."""
        kept = (*self.recent, *recent)[-KEPT:]
        return replace(
            self, landmark=landmark or self.landmark, head=head or self.head, recent=kept
        )

    def to_json(self) -> dict[str, Any]:
        """As the journal keeps it."""
        landmark, head, to = self.landmark, self.head, self.by_gtids_to
        return {
            "landmark": landmark.to_json() if landmark is not None else None,
            "head": [head.file, head.created] if head is not None else None,
            "recent": [[one.gtid, one.digest, one.ts_ms] for one in self.recent],
            "by_gtids_to": str(to) if to is not None else None,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> CursorProof:
        """Read what ``to_json`` wrote; raise KeyError, ValueError or TypeError if it is not that."""
        if not value:
            return cls()
        landmark, head, to = value["landmark"], value["head"], value["by_gtids_to"]
        return cls(
            landmark=Landmark.from_json(landmark) if landmark is not None else None,
            head=FileHead(file=head[0], created=head[1]) if head is not None else None,
            recent=tuple(Recent(*one) for one in value["recent"]),
            by_gtids_to=Coordinates.parse(to) if to is not None else None,
        )
