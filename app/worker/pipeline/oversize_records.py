"""Oversize records, made small enough for their topic as the settings require.

Invariant: only the images are omitted, and the record states it; its key, ChangeId, ``seq`` and position stay.
Claim check images are stored durably before their pointer is published, under a name derived from their bytes:
the same change has the same images in any run, so a second write makes the same object.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import orjson

from app.worker.pipeline.formats.protocol import DetachedImages, RecordFormat
from app.worker.pipeline.rules import PublishingRules
from connectors.kafka.record_batches import Record, Shrink
from connectors.store.claims import ClaimStore, FolderStore
from connectors.store.s3 import SCHEME, S3Store
from wire.records import HEADER_CLAIM_CHECK, HEADER_LEFT_OUT

_CLAIM_CHECK = "claim_check"


def claim_store(rules: PublishingRules) -> ClaimStore:
    """Return the claim store of the settings; opens nothing yet."""
    if rules.claims.startswith(SCHEME):
        return S3Store(rules.claims, rules.claims_access)
    return FolderStore(rules.claims)


class OversizeRecords:
    """Makes records of rows smaller, for one piece, and counts them."""

    def __init__(self, rules: PublishingRules, store: ClaimStore) -> None:
        self.largest = rules.largest
        """Bytes of a finished batch above which a record goes through here."""
        self._way = rules.oversize
        self._store = store
        self.counts: Counter[str] = Counter()
        """Records by outcome."""
        self.saved = 0
        """Bytes removed from these records."""

    def of(self, format_: RecordFormat) -> Shrink:
        """Return the function that makes records of this format smaller."""
        return lambda topic, record: self._replacement(topic, record, format_)

    def _replacement(self, topic: str, record: Record, format_: RecordFormat) -> Record:
        """Return the record to publish in place of an oversize record; the same record if it has no value."""
        key, value, headers = record
        if value is None:
            return record
        detached = format_.detach_images(value)
        if self._way == _CLAIM_CHECK:
            name, member = HEADER_CLAIM_CHECK, self._store_images(topic, detached)
        else:
            name, member = HEADER_LEFT_OUT, dict(detached.sizes)
        smaller = detached.value(name, member)
        self.counts[self._way] += 1
        self.saved += len(value) - len(smaller)
        return key, smaller, [*headers, (name, orjson.dumps(member))]

    def _store_images(self, topic: str, detached: DetachedImages) -> dict[str, Any]:
        stored = detached.images
        digest = hashlib.sha256(stored).hexdigest()
        day = datetime.fromtimestamp(detached.committed_ms / 1000, UTC).date().isoformat()
        location = self._store.put(f"{topic}/{day}/{digest}.json", stored)
        return {"location": location, "size": len(stored), "sha256": digest}
