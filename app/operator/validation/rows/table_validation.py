"""The validation of one table: look after look over its rows, then what no look had.

Invariant: a difference is counted once and only if it is proven; what is not proven is counted by name, or as
written meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from app.operator.validation.rows.folded_topic import FoldedTopic, Unequal
from app.operator.validation.rows.looks import After, Look, Looks, Places
from app.operator.validation.rows.present_images import stored
from app.operator.validation.rows.table_result import Kind, TableResult
from connectors.kafka.reading.partition_reader import StoredRecord

ReadRecord = Callable[[int, int], Awaitable[StoredRecord | None]]
"""Returns the record of a partition and offset of the topic, or None if it is gone."""
Show = Callable[[TableResult], object]
"""Receives a result as it grows."""

DEAD_LETTERS = "rows that cannot be decoded: their records would be dead letters"


class TableValidation:
    """One pass over one table."""

    def __init__(
        self,
        looks: Looks,
        result: TableResult,
        *,
        read_record: ReadRecord,
        show: Show,
        run: int,
    ) -> None:
        """``run``: a number that no other pass over the folded topic has."""
        self._looks, self._result, self._run = looks, result, run
        self._read_record, self._show = read_record, show
        self._folded: FoldedTopic = looks.folded

    async def whole(self) -> None:
        """Compare all rows."""
        after: After = None
        first: Places | None = None
        while True:
            look = await self._looks.at(after)
            await self._compare(look)
            first = first or look.began
            if look.is_last:
                break
            after = look.last
        self._count_unseen(first)

    async def samples(self, keys: Sequence[After]) -> None:
        """Compare a chunk of rows after each of these keys."""
        await self._compare(await self._looks.samples(keys))
        self._result.notes.append(
            f"only the rows after {len(keys)} random key(s) were compared, and no extra rows looked for"
        )

    async def _compare(self, look: Look) -> None:
        result = self._result
        result.rows += look.rows
        if look.dead_letters:
            result.unjudged[DEAD_LETTERS] += look.dead_letters
        for one in list(self._folded.compare(result.name, self._run)):
            await self._add(one)
        self._show(result)

    async def _add(self, one: Unequal) -> None:
        result, row = self._result, one.row
        if one.is_missing:
            result.add(Kind.MISSING, row.key, literals=row.literals or None)
        elif one.doubt is not None:
            result.unjudged[one.doubt] += 1
        else:
            columns = await self._columns(one) if result.lists_more else ()
            result.add(Kind.DIFFERENT, row.key, columns=columns, literals=row.literals or None)

    async def _columns(self, one: Unequal) -> tuple[str, ...]:
        """Return the columns in which a row differs from the last record of its key."""
        record = None if one.at is None else await self._read_record(*one.at)
        if record is None or not record.value:
            return ()
        image = self._folded.image_of(self._result.name, record)
        return () if image is None else differing(stored(image), one.row.image)

    def _count_unseen(self, first: Places) -> None:
        """Count the rows of the topic that no look had; of one that was written since the first, nothing is
        known."""
        topic = self._result.topic
        for one in self._folded.unseen(self._result.name, self._run):
            if one.at < first[topic, one.part]:
                self._result.add(Kind.EXTRA, one.key)
            else:
                self._result.later += 1
        self._show(self._result)


def differing(one: bytes, other: bytes) -> tuple[str, ...]:
    """Return the names of the columns in which two stored images differ."""
    was, is_, absent = _exact(one), _exact(other), object()
    names = sorted(was.keys() | is_.keys())
    return tuple(name for name in names if was.get(name, absent) != is_.get(name, absent))


def _exact(image: bytes) -> dict[str, object]:
    """An image whose numbers are equal only if they are written equally."""
    found: dict[str, object] = json.loads(image, parse_float=_number, parse_int=_number)
    return found


def _number(text: str) -> tuple[str, str]:
    return "number", text
