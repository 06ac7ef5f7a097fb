"""The format for one run: constants of table versions rendered once, images taken out of large values."""

from __future__ import annotations

import json
from typing import Any

import orjson

from app.worker.pipeline.formats.debezium.envelope import Envelope
from app.worker.pipeline.formats.debezium.table_text import TableText
from app.worker.pipeline.formats.protocol import DetachedImages, Emitted, Records
from app.worker.pipeline.rules import Rules
from connectors.mysql.rows.compiled.generate import Row
from connectors.mysql.rows.decoder import UPDATES
from tables.rules.table_version import TableVersion

_UPDATES = frozenset(map(int, UPDATES))
"""Event types whose rows have two images, as plain numbers."""
_JSON = json.JSONDecoder()
_BEFORE, _AFTER = '{"before":', ',"after":'
"""The text before each image in every row's value."""


class Debezium:
    """Debezium's envelope in JSON."""

    def __init__(self, rules: Rules, *, connector: str, epoch: int) -> None:
        self._rules, self._connector, self._epoch = rules, connector, epoch
        self._texts: dict[tuple[str, str], TableText] = {}

    @staticmethod
    def values_of(rows: list[Row], event_type: int) -> int:
        """Return the record count: one for each row, two for a row whose key changed."""
        if event_type not in _UPDATES:
            return len(rows)
        return len(rows) + sum([row[2] != row[3] for row in rows])

    @staticmethod
    def keeps_tombstones(_rules: Rules) -> bool:
        return True

    def records(self, emitted: Emitted, now_ms: int) -> Records:
        return Envelope(
            self._rules,
            connector=self._connector,
            epoch=self._epoch,
            emitted=emitted,
            now_ms=now_ms,
            text=self._text,
        )

    def detach_images(self, value: bytes) -> DetachedImages:
        (before, after), rest = _images_and_rest(value)

        def value_without_images(name: str, content: object) -> bytes:
            return orjson.dumps({"before": None, "after": None, name: content, **rest})

        named = {"before": before, "after": after}
        return DetachedImages(
            images=b'{"before":%b,"after":%b}' % (before, after),
            sizes={name: len(image) for name, image in named.items() if image != b"null"},
            committed_ms=rest["source"]["ts_ms"],
            value=value_without_images,
        )

    def _text(self, version: TableVersion) -> TableText:
        """Return the constant parts of a version's envelopes."""
        name = (version.database, version.table)
        text = self._texts.get(name)
        if text is None or text.version is not version:
            route = self._rules.routes.of(name)
            text = TableText(version, route, connector=self._connector, epoch=self._epoch)
            self._texts[name] = text
        return text


def _images_and_rest(value: bytes) -> tuple[tuple[bytes, bytes], dict[str, Any]]:
    """Return the images byte for byte, and the rest of a value."""
    text = value.decode()
    _, middle = _JSON.raw_decode(text, len(_BEFORE))
    _, end = _JSON.raw_decode(text, middle + len(_AFTER))
    images = text[len(_BEFORE) : middle].encode(), text[middle + len(_AFTER) : end].encode()
    return images, orjson.loads(b"{" + text[end + 1 :].encode())
