"""Refusals: the record of a batch that is too large, and the topics whose settings do not allow a batch.

Invariant: a batch is searched only once it was refused; the facts reported of a row are those in its record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import orjson
from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from aiokafka.record import MemoryRecords

from connectors.errors import AqueductError, BatchTooLarge, KafkaRefused, RecordTooLarge
from connectors.kafka.error_mapping import translated
from connectors.kafka.record_batches import FinishedBatch
from wire.records import HEADER_CHANGE_ID

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_AROUND = 200
"""The most bytes that a batch of one record has besides the record's key, value and headers."""
_DEFAULT_BYTES = 1_048_588
"""Kafka's default of max.message.bytes."""
_SHOWN = 200
"""Bytes of a key that are shown."""


def refused_batch(
    sent: Iterable[tuple[FinishedBatch, asyncio.Future[Any]]], error: BaseException | None
) -> FinishedBatch | None:
    """Return the batch that the broker refused as too large, if that is the error."""
    if not isinstance(error, _TOO_LARGE):
        return None
    for batch, future in sent:
        if future.done() and not future.cancelled() and isinstance(future.exception(), _TOO_LARGE):
            return batch
    return None


def refused_topics(
    sent: Iterable[tuple[FinishedBatch, asyncio.Future[Any]]],
) -> dict[str, AqueductError]:
    """Return the topics whose settings do not allow these batches, each with the error that the broker gave."""
    found: dict[str, AqueductError] = {}
    for batch, future in sent:
        answer = future.exception() if future.done() and not future.cancelled() else None
        error = translated(answer) if answer is not None else None
        if isinstance(error, KafkaRefused):
            error.context["topic"] = batch.topic
            found.setdefault(batch.topic, error)
    return found


def too_large(batch: FinishedBatch, limit: int | None) -> RecordTooLarge | BatchTooLarge:
    """Return an error that names the batch's largest record, or the batch alone if a retry may succeed."""
    held = max(_records(batch), key=lambda record: len(record.value or b""))
    key, value = held.key or b"", held.value or b""
    headers = sum(len(name) + len(text or b"") for name, text in held.headers)
    alone = len(key) + len(value) + headers + _AROUND
    if _may_pass(batch, alone, limit):
        known = _known(limit, is_enough=limit is not None and len(batch.raw) <= limit)
        return BatchTooLarge(
            f"{batch.records} record(s) of {len(batch.raw)} bytes as sent, and {known}",
            topic=batch.topic,
            size=len(batch.raw),
            limit=limit,
        )
    position = _position_of(value)
    name = dict(held.headers).get(HEADER_CHANGE_ID)
    allowed = f", and {_known(limit)}" if limit is not None else ""
    wanted = max(_DEFAULT_BYTES, 2 * max(alone, len(batch.raw)))
    return RecordTooLarge(
        f"{len(value)} bytes, {len(batch.raw)} as sent{allowed}",
        topic=batch.topic,
        remedy=RecordTooLarge.remedy.replace("TOPIC", batch.topic).replace("BYTES", str(wanted)),
        **position,
        key=key[:_SHOWN].decode(errors="replace") or None,
        change_id=name.decode() if name else None,
        size=len(value),
        limit=limit,
    )


def _may_pass(batch: FinishedBatch, alone: int, limit: int | None) -> bool:
    """Whether a retry may succeed: several records in smaller batches, or one under a limit raised since.

    ``alone``: the bytes of a batch with the largest record alone.
    """
    if limit is None or batch.records > 1:
        return batch.records > 1 and (limit is None or alone < limit)
    # Incompressible data is a little larger when sent.
    return max(alone, len(batch.raw)) < limit


def _known(limit: int | None, *, is_enough: bool = False) -> str:
    """A topic's limit in an error's text; ``is_enough``: the limit was raised since the refusal."""
    if limit is None:
        return "max.message.bytes of the topic cannot be asked for (DescribeConfigs)"
    now = " now, which is enough" if is_enough else ""
    return f"the topic takes {limit}{now} (the smaller of max.message.bytes and segment.bytes)"


def _records(batch: FinishedBatch) -> list[Any]:
    held = MemoryRecords(bytes(batch.raw)).next_batch()
    return list(held) if held is not None else []


def _position_of(value: bytes) -> dict[str, Any]:
    """A row's table and position; empty if the value is no row."""
    try:
        content = orjson.loads(value)
        if "source" not in content:  # another format; see docs/formats.md
            table = f"{content['database']}.{content['table']}"
            return {"table": table, "gtid": content.get("gtid") or None}
        source = content["source"]
        table = f"{source['db']}.{source['table']}" if source["table"] else source["db"]
        return {
            "table": table,
            "gtid": source["gtid"],
            "coordinates": f"{source['file']}:{source['pos']}",
        }
    except (ValueError, KeyError, TypeError):
        return {}
