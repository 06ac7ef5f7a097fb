"""Logical tables as commands read them from their topic."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from app.operator import shards
from app.operator.shards import published_tables
from app.settings.model import Settings
from connectors.kafka.reading import StoredRecord
from tables.history.logical_schemas.published import next_published
from tests.unit.tables.history.logical_schemas.made import NAME, Shards

FOREIGN = (
    (b"x", b"{"),
    (b"x", b"[1]"),
    (b"x", b'{"state":"equal"}'),
    (b"x", b""),
    (b"[]", b""),
    (b'{"database":[],"table":"t"}', b""),
)


async def test_records_that_another_program_wrote_are_skipped_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = next_published(Shards("a1", columns="id int not null").schema, None, 1)
    assert found is not None
    key, value = found.to_record()
    # It has a state and a name, and lacks what is shown.
    content = orjson.loads(value)
    foreign = [*FOREIGN, (key, orjson.dumps({**content, "changes": 7}))]
    foreign.append((key, orjson.dumps({**content, "shards": [{}]})))
    records = [StoredRecord(*one, at) for at, one in enumerate([*foreign, (key, value), *foreign])]

    async def read(*_: object) -> list[StoredRecord]:
        return records

    async def has(_: object) -> bool:
        return True

    topics = SimpleNamespace(logical_schemas=lambda: SimpleNamespace(name="aq.__logical_schemas"))
    monkeypatch.setattr(shards, "is_mapped", lambda _: True)
    monkeypatch.setattr(shards, "kafka_client", lambda _: SimpleNamespace(options=dict))
    monkeypatch.setattr(shards, "topic_plans", lambda _: topics)
    monkeypatch.setattr(shards, "Topics", lambda _: SimpleNamespace(has=has))
    monkeypatch.setattr(shards, "read_to_end", read)
    with caplog.at_level(logging.WARNING):
        assert await published_tables(cast(Settings, cast(Any, None))) == {NAME: found}
    assert len(caplog.records) == 2 * len(foreign)
    assert "offset 0 of aq.__logical_schemas is skipped" in caplog.text
