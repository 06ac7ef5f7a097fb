"""Kinds of journal records: the form of a kind's keys, the part it folds into, and the receiver of its notice.

Invariant: a kind's name begins its keys and is used once; a record of a kind that is not registered
changes no state and notifies nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar

from connectors.kafka.reading import StoredRecord
from tables.journal_format import quoted


class Part(Protocol):
    """A part of a destination's state, which records of one or several kinds fold into."""

    def take(self, kind: str, names: list[str], record: StoredRecord) -> None:
        """Fold a record in; ``names`` are the names after the destination's in its key."""
        ...


class Addressed(Protocol):
    """A notice that names its destination."""

    @property
    def destination(self) -> str:
        """The destination's name."""
        ...


P = TypeVar("P", bound=Part)
T = TypeVar("T", bound=Addressed)


@dataclass(frozen=True, slots=True, eq=False)
class StatePart(Generic[P]):
    """The name of a part, by which a state returns it with its type."""

    make: Callable[[str], P]
    """Makes the empty part of a destination."""


class Parts:
    """The parts of one destination's state, each made at its first use."""

    def __init__(self, destination: str) -> None:
        self._destination = destination
        self._made: dict[StatePart[Any], Any] = {}

    def __getitem__(self, part: StatePart[P]) -> P:
        made: P | None = self._made.get(part)
        if made is None:
            made = self._made[part] = part.make(self._destination)
        return made

    def __setitem__(self, part: StatePart[P], made: P) -> None:
        self._made[part] = made


class Audience(Enum):
    """The receiver on each worker of a record's notice, once it is committed."""

    DESTINATION = auto()
    """The destination that the record names, if the worker has it."""
    WORKER = auto()
    """The worker itself, which may not have that destination yet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind(Generic[T]):
    """A kind of journal record, with keys of the form ``<name>/<destination>/…``."""

    name: str
    part: StatePart[Any] | None = None
    """The part of its destination's state that it changes; None if it changes no part."""
    notice: Callable[[StoredRecord], T | None] | None = None
    """Decodes the notice for its audience; returns None for a record of no interest, and raises
    JournalUnreadable or JournalTooNew. Without it, there is no notice."""
    audience: Audience = Audience.DESTINATION
    is_checkpointed: bool = True
    """Whether the journal's checkpoint keeps its records."""
    is_plain: bool = False
    """Whether the rest of a key is a single name that is not quoted, such as the destination's."""

    def key(self, *names: str) -> bytes:
        """The key of a record; ``names``: its destination's name, and the names after it."""
        rest = names if self.is_plain else map(quoted, names)
        return "/".join((self.name, *rest)).encode()

    def is_of(self, key: bytes) -> bool:
        """Whether a key is of this kind."""
        return key.startswith(f"{self.name}/".encode())


# The offsets of journal records that were folded, for parts whose records may be folded twice.
#
# Invariant: a record changes a part once, and an older record of its key never changes it after a
# newer one.


@dataclass(slots=True)
class FoldedOffsets:
    """The last offset of each key."""

    _last: dict[bytes, int] = field(default_factory=dict)

    def is_new(self, record: StoredRecord) -> bool:
        """Whether a record is newer than all earlier records of its key; it is new only in the first call."""
        if record.offset <= self._last.get(record.key, -1):
            return False
        self._last[record.key] = record.offset
        return True
