"""Number, the second step of a decoder: numbers, table versions and changed keys, portion after portion.

Invariant: the state passes from portion to portion in order, so that numbers have no gaps whichever process
decodes a portion. It is small, and can always be restored from the journal.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from connectors.errors import ResumeMismatch
from connectors.mysql.lookup.fingerprint import Sums
from connectors.mysql.position import Coordinates
from tables.state.cursor import Cursor, Resume


@dataclass(slots=True, kw_only=True)
class Progress:
    """The progress of a transaction that is longer than one piece."""

    transaction_id: str
    start: Coordinates
    ordinal: int = 0
    """Its source rows so far."""
    order: int = 0
    """Its row records so far."""
    part: int = 1
    skip: int = 0
    """Source rows at its beginning that an earlier run has published."""
    is_published: bool = False
    """Whether any of it was published, by this run or an earlier one."""
    counts: Counter[str] = field(default_factory=Counter)
    """Published values of this part, by topic."""
    size: int = 0
    """Approximate bytes of records of this part, known before they are encoded."""

    def cut(self) -> Resume:
        """End a part here; return the position from which another run can resume."""
        resume = Resume(
            transaction_id=self.transaction_id,
            rows=self.ordinal,
            published=self.order,
            part=self.part,
        )
        self.part += 1
        self.size = 0
        self.counts = Counter()
        return resume


@dataclass(slots=True, kw_only=True)
class Numbers:
    """The numbers of the record stream after a portion."""

    seq: int
    """The last number assigned."""
    safe: Coordinates
    """The position after the last whole transaction."""
    open: Progress | None = None
    """The transaction open at the end of the previous portion."""
    prints: Sums = field(default_factory=Sums)
    """The partial fingerprint of that transaction, where fingerprints are kept."""
    resume: Resume | None = None
    """The expected first transaction, if an earlier run published a part of it."""

    @classmethod
    def of(cls, cursor: Cursor) -> Numbers:
        """Return the numbers of a cursor in the journal."""
        return cls(seq=cursor.seq, safe=cursor.offset.coordinates, resume=cursor.resume)

    def take_up(self, transaction_id: str, start: Coordinates) -> Progress:
        """Return the progress of the partly published transaction; raise ResumeMismatch if this is another."""
        resume, self.resume = self.resume, None
        assert resume is not None
        if transaction_id != resume.transaction_id:
            raise ResumeMismatch(
                f"{resume.transaction_id} was published to row {resume.rows}, "
                f"but the source continues with {transaction_id}"
            )
        return Progress(
            transaction_id=transaction_id,
            start=start,
            order=resume.published,
            part=resume.part + 1,
            skip=resume.rows,
            is_published=True,
        )
