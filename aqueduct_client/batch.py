"""What a call of get returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aqueduct_client.in_flight import NOTHING, Offsets
from aqueduct_client.records import Record


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in order, to be acknowledged together by ``id``; without records the id is -1."""

    id: int
    records: tuple[Record, ...]
    offsets: Offsets
    """After its records, by partition."""

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


EMPTY = Batch(NOTHING, (), {})
