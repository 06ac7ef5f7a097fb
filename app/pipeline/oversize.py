"""A record that is larger than its topic takes: made small enough, as the settings say.

The law: only the images are left out, and the record says so; its key, ChangeId, ``seq`` and place stay.
A claimed value is stored for good before its pointer is anywhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import orjson

from app.pipeline.rules import Rules
from connectors.claims import ClaimStore, FolderStore
from connectors.kafka.batches import Record
from connectors.wire import HEADER_CLAIM_CHECK, HEADER_LEFT_OUT

CLAIM_CHECK, KEY_ONLY = "claim_check", "key_only"


class Lightening:
    """Makes records of rows smaller, for one chunk, and counts what it did."""

    def __init__(self, rules: Rules, store: ClaimStore | None = None) -> None:
        self.largest = rules.largest
        """Bytes of a finished batch above which a record goes through here."""
        self._way = rules.oversize
        self._store = store if store is not None else FolderStore(rules.claims)
        self.counts: Counter[str] = Counter()
        """Records by what was done with them."""
        self.saved = 0
        """Bytes that they no longer have."""

    def __call__(self, topic: str, record: Record) -> Record:
        """The record that goes to the topic in its place; the same where it is no row."""
        key, value, headers = record
        if value is None:
            return record
        envelope: dict[str, Any] = orjson.loads(value)
        if self._way == CLAIM_CHECK:
            name, told = HEADER_CLAIM_CHECK, self._claimed(topic, envelope, value)
        else:
            name, told = HEADER_LEFT_OUT, _left_out(envelope)
        rest = {field: held for field, held in envelope.items() if field not in ("before", "after")}
        light = orjson.dumps({"before": None, "after": None, name: told, **rest})
        self.counts[self._way] += 1
        self.saved += len(value) - len(light)
        return key, light, [*headers, (name, orjson.dumps(told))]

    def _claimed(self, topic: str, envelope: dict[str, Any], value: bytes) -> dict[str, Any]:
        """Where the value is from now on."""
        digest = hashlib.sha256(value).hexdigest()
        day = datetime.fromtimestamp(envelope["source"]["ts_ms"] / 1000, UTC).date().isoformat()
        location = self._store.put(f"{topic}/{day}/{digest}.json", value)
        return {"location": location, "size": len(value), "sha256": digest}


def _left_out(envelope: dict[str, Any]) -> dict[str, int]:
    """What is not there any more, and how many bytes of JSON it was."""
    images = {name: envelope[name] for name in ("before", "after")}
    return {name: len(orjson.dumps(image)) for name, image in images.items() if image is not None}
