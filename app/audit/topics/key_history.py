"""The records of one key in the order of their numbers: checks the rows among them that a SELECT returned.

Invariant: a row that a SELECT returned has the image that the change before it left, and that the change after
it found. A row that neither change proves is not judged, but counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from app.audit.verdict import FaultKind, Finding
from tables.history.present_columns import Described

Image = Mapping[str, Any]
Report = Callable[[FaultKind, Finding, str], None]
"""Receives the kind of a fault, the record's location, and a description."""


class Proof(Enum):
    """The change with which a row that was read was compared; the values are the words of the report."""

    EARLIER = "compared with the change before"
    LATER = "compared with the change after"
    NONE = "existing rows that no change of their key proves"


class Effect(Enum):
    """What a statement does to the rows of its table."""

    EMPTIED = "emptied"
    ALTERED = "altered"
    """The rows are the same, perhaps with other columns."""
    UNKNOWN = "unknown"
    """Rows may have come or gone without a row event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record of a row; ``read`` is the reading that returned the row, or None for a change of the source."""

    seq: int
    op: str
    version: int
    before: Image | None
    after: Image | None
    read: str | None
    at: Finding
    """Its location."""
    is_keyed: bool = True
    """Whether the table's key identifies the row, not only its ChangeId."""


@dataclass(slots=True)
class _State:
    """The row after the last record."""

    exists: bool | None = None
    """None: not known."""
    image: Image | None = None
    """The columns that are known."""
    version: int = 0
    seq: int = 0
    is_of_change: bool = False
    """Whether a change of the source left this state, not only a row that was read."""


@dataclass(slots=True)
class KeyHistory:
    """Takes the records of one key, and the statements on its table between them."""

    versions: Mapping[int, Described]
    """The versions of the table."""
    report: Report
    knows_statements: bool
    """Whether every statement on the table is passed to ``statement``."""
    counts: dict[Proof, int] = field(default_factory=lambda: dict.fromkeys(Proof, 0))
    _state: _State = field(default_factory=_State)
    _waiting: list[Entry] = field(default_factory=list)
    """Rows that were read and that no earlier change proves."""
    _read: dict[str, Entry] = field(default_factory=dict)
    """The last row of each reading since the last statement."""

    def statement(self, effect: Effect) -> None:
        """Note a statement on the table."""
        # After a statement on the table, a reading may rightly return a key again.
        self._read.clear()
        if effect is Effect.EMPTIED:
            self._unproven()
            self._state = _State(exists=False, is_of_change=True)
        elif effect is Effect.UNKNOWN:
            self._unproven()
            self._state = _State()

    def take(self, entry: Entry) -> None:
        """Judge the next record."""
        if entry.read is not None:
            self._take_read(entry, entry.read)
            return
        self._prove_waiting(entry)
        if entry.op == "d":
            self._state = _State(exists=False, seq=entry.seq, is_of_change=True)
            return
        state = self._state
        known = entry.after
        if known is not None and entry.op == "u" and state.image and state.version == entry.version:
            # An image may lack columns that the change did not modify.
            known = {**state.image, **known}
        self._state = _State(True, known, entry.version, entry.seq, is_of_change=True)

    def close(self) -> None:
        """Finish after the last record: count the rows that remain unproven."""
        self._unproven()

    def _take_read(self, entry: Entry, read: str) -> None:
        if entry.op == "d":
            self._take_removed(entry)
            return
        if any(one.op == "d" for one in self._waiting):
            # The row exists again without a change of the source, so a later change proves nothing about the
            # delete.
            self._unproven()
        state, earlier = self._state, self._read.get(read)
        if earlier is not None and self._is_repeated(earlier, entry):
            what = f"the same reading has returned its row already, with seq {earlier.seq}"
            self.report(FaultKind.REPEATED, entry.at, what)
        self._read[read] = entry
        if state.exists is False:
            self.counts[Proof.EARLIER] += 1
            after = f"after seq {state.seq}" if state.seq else "after its table was emptied"
            self.report(FaultKind.UNTRUE, entry.at, f"it was read, and did not exist {after}")
            return
        column, is_proof = self._compared(entry, state.image, state.version)
        if column is not None:
            what = f"{column} has another value than in the record before it, seq {state.seq}"
            self.report(FaultKind.UNTRUE, entry.at, what)
        if column is not None or (is_proof and state.is_of_change):
            self.counts[Proof.EARLIER] += 1
        else:
            self._waiting.append(entry)
        if not state.is_of_change:
            self._state = _State(True, entry.after, entry.version, entry.seq)

    def _take_removed(self, entry: Entry) -> None:
        """Judge the delete of a row that a reading did not find.

        A row that an earlier change left is no fault: subscribers have an extra row only if the source lost it
        without a trace in its binlog.
        """
        self._unproven()
        if self._state.exists is False:
            self.counts[Proof.EARLIER] += 1
        else:
            self._waiting.append(entry)
            self._state = _State(exists=None)

    def _prove_removed(self, entry: Entry, change: Entry) -> None:
        """Judge the delete of a row that a reading did not find, by the change after the delete."""
        is_proof = change.op == "c" or self.knows_statements
        if change.op != "c" and self.knows_statements:
            what = f"it was not read, and existed when it was changed by seq {change.seq}"
            self.report(FaultKind.UNTRUE, entry.at, what)
        self.counts[Proof.LATER if is_proof else Proof.NONE] += 1

    def _is_repeated(self, earlier: Entry, entry: Entry) -> bool:
        """Whether a reading returned a row again without a statement on the table that explains it."""
        if earlier.at.change_id == entry.at.change_id:
            return True
        return self.knows_statements and earlier.version == entry.version

    def _prove_waiting(self, change: Entry) -> None:
        """Compare the waiting rows with the row that a change found."""
        for entry in self._waiting:
            if entry.op == "d":
                self._prove_removed(entry, change)
                continue
            column, is_proof = self._compared(entry, change.before, change.version)
            if change.op == "c" and self.knows_statements:
                is_proof = True
                what = f"it was read, and did not exist before it was inserted by seq {change.seq}"
                self.report(FaultKind.UNTRUE, entry.at, what)
            elif column is not None:
                is_proof = True
                what = (
                    f"{column} has another value than the change after it found, seq {change.seq}"
                )
                self.report(FaultKind.UNTRUE, entry.at, what)
            self.counts[Proof.LATER if is_proof else Proof.NONE] += 1
        self._waiting.clear()

    def _unproven(self) -> None:
        self.counts[Proof.NONE] += len(self._waiting)
        self._waiting.clear()

    def _compared(self, entry: Entry, other: Image | None, version: int) -> tuple[str | None, bool]:
        """The first column whose value differs, and whether more than the key was compared."""
        image = entry.after
        if image is None or other is None:
            return None, False
        own = self.versions.get(entry.version)
        key = own.primary_key if own is not None else ()
        compared = 0
        for name, counterpart in self._shared(entry.version, version, image):
            if counterpart not in other:
                continue
            if not _same(image[name], other[counterpart]):
                return name, True
            compared += name not in key
        return None, bool(compared) or len(image) <= len(key)

    def _shared(self, one: int, other: int, image: Image) -> Sequence[tuple[str, str]]:
        """The columns that two versions have in common, as pairs of their names."""
        if one == other:
            return [(name, name) for name in image]
        first, second = self.versions.get(one), self.versions.get(other)
        if first is None or second is None:
            return []
        theirs = {_column(second, at): name for at, name in enumerate(second.columns)}
        pairs = [
            (name, theirs.get(_column(first, at), "")) for at, name in enumerate(first.columns)
        ]
        return [pair for pair in pairs if pair[1] and pair[0] in image]


def _column(version: Described, at: int) -> tuple[str, str, str | None]:
    """The identity of a column across versions; if it differs, a statement may have converted values."""
    own = version.ids[at] if at < len(version.ids) else None
    return own or version.columns[at], version.types[at], version.charsets[at]


def _same(one: Any, other: Any) -> bool:
    """Whether two values on the wire are equal; values of different types never are."""
    return type(one) is type(other) and bool(one == other)
