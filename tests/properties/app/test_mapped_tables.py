"""Mapped tables against a second reading: what is published without the mapping, renamed by its rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tables.mapping.yaml_form import from_yaml
from tables.routes.routes import Routes
from tests.unit.app.pipeline.actions import cuts, histories
from tests.unit.app.pipeline.history import Source
from tests.unit.app.pipeline.runs import (
    MARKERS,
    Record,
    assert_markers,
    joined,
    pieces_of,
    records_of,
)

PLAIN = Routes(prefix="aq", include=r"(shop|other)\..*", destination="shop")
REAL = ("shop.orders", "other.orders", "shop.log")
LOGICAL = st.sampled_from(["a", "b"])
TOPICS = st.sampled_from(["", "t"])


@st.composite
def choices(draw: st.DrawFn) -> tuple[dict[str, str], str]:
    """The logical table of each real one, none for some, and the topic of all or none."""
    owners = draw(st.dictionaries(st.sampled_from(REAL), LOGICAL))
    return owners, draw(TOPICS)


def mapping_text(owners: dict[str, str], topic: str) -> str:
    tables: dict[str, Any] = {}
    for real, name in owners.items():
        tables.setdefault(f"l.{name}", {"from": [], "tags": {"": f"tag_{name}"}})["from"].append(
            real
        )
    databases = {"l": {"topic": topic}} if topic else {}
    return orjson.dumps({"databases": databases, "tables": tables}).decode()


def renamed(record: Record, owners: dict[str, str], topic: str) -> Any:
    """A record as the mapping wants it, from the one without a mapping."""
    real = record.topic.removeprefix("aq.")
    key, value, headers = record.key, record.value, list(record.headers)
    if real not in owners:
        return record.topic, key, plain(value), headers
    name = owners[real]
    if topic or list(owners.values()).count(name) > 1:
        shard = ["shop", *real.split(".")]
        key = key and with_shard(key, shard)
        headers = [
            (name, with_shard(text, shard) if name.endswith("key") else text)
            for name, text in headers
        ]
    headers.append(("tags", f"tag_{name}".encode()))
    value = plain(value)
    if value is not None:
        logical = {"logical_db": "l", "logical_table": name, "tags": [f"tag_{name}"]}
        value["source"] |= logical
    return f"aq.{topic}" if topic else f"aq.l.{name}", key, value, headers


def with_shard(key: bytes, shard: list[str]) -> bytes:
    return orjson.dumps({"__shard": shard, **orjson.loads(key)})


def plain(value: Any) -> Any:
    """A value without the time of its encoding."""
    return value and {**value, "ts_ms": 0, "source": dict(value["source"])}


def rows(records: list[Record]) -> list[Record]:
    """Records of rows, in the order of their numbers; a tombstone follows its delete."""
    found = [one for one in records if one.topic != MARKERS and "__ddl" not in one.topic]
    last = 0
    placed = []
    for one in found:
        last = one.seq if one.value is not None else last
        placed.append((last, one))
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]


@settings(deadline=None, max_examples=40)
@given(history=histories, cut=cuts, choice=choices(), max_bytes=st.sampled_from([150, 1_000_000]))
def test_a_mapping_renames_and_tags_and_changes_nothing_else(
    history: Any, cut: Any, choice: tuple[dict[str, str], str], max_bytes: int
) -> None:
    owners, topic = choice
    source = Source(history, gtids=True)
    whole = rows(records_of(pieces_of(source, routes=PLAIN)))
    routes = replace(PLAIN, mapping=from_yaml(mapping_text(owners, topic)))
    pieces = pieces_of(source, cut, routes=routes, max_bytes=max_bytes)
    assert_markers(joined(pieces))
    found = rows(records_of(pieces))
    assert [(one.topic, one.key, plain(one.value), list(one.headers)) for one in found] == [
        renamed(one, owners, topic) for one in whole
    ]
