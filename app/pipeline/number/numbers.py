"""What one chunk hands to the next: the last number given, and how far an open transaction is.

The law: it is passed from chunk to chunk in the order of the binlog, so that numbers have no gaps whichever
process decodes a chunk; it is small, and holds nothing that the journal could not give anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from connectors.errors import ResumeMismatch
from connectors.mysql.lookup.fingerprint.fingerprint import Sums
from connectors.mysql.position import Coordinates
from tables.cursor import Cursor, Resume


@dataclass(slots=True, kw_only=True)
class Progress:
    """Of a transaction that is longer than its chunk."""

    transaction_id: str
    start: Coordinates
    ordinal: int = 0
    """Source rows of it so far."""
    order: int = 0
    """Row records of it so far."""
    part: int = 1
    skip: int = 0
    """Source rows at its beginning that an earlier run has published."""
    begun: bool = False
    """Whether any of it was published, by this run or an earlier one."""
    counts: Counter[str] = field(default_factory=Counter)
    """Published values by topic, of this part."""
    size: int = 0
    """Bytes of records, of this part, about: it is known before they are encoded."""

    def cut(self) -> Resume:
        """End a part here; another run could go on from this place."""
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
    """Where the stream of records stands."""

    seq: int
    """The last number that was given."""
    safe: Coordinates
    """Behind the last whole transaction."""
    open: Progress | None = None
    """The transaction in which the chunk before ended."""
    prints: Sums = field(default_factory=Sums)
    """What is known so far of that one's fingerprint, where such are kept."""
    resume: Resume | None = None
    """What the first transaction must be, if an earlier run published a part of it."""

    @classmethod
    def of(cls, cursor: Cursor) -> Numbers:
        """As the journal has them."""
        return cls(seq=cursor.seq, safe=cursor.offset.coordinates, resume=cursor.resume)

    def take_up(self, transaction_id: str, start: Coordinates) -> Progress:
        """The first transaction, of which a part was published; raise ResumeMismatch where it is another."""
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
            begun=True,
        )
