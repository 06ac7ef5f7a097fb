"""Records that are too large for their topic: stored and pointed to, or without their images."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import orjson
import pytest

from app.worker.pipeline.formats.envelope import Debezium
from app.worker.pipeline.oversize_records import OversizeRecords
from app.worker.pipeline.piece import Piece
from connectors.errors import ClaimStoreLost
from connectors.store.claims import FolderStore, MemoryStore
from tests.unit.app.worker.pipeline.actions import TABLES, RowsOf
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import RULES, WHOLE, first_cursor, records_of, run

ORDERS = TABLES[0]
FORMAT = Debezium(RULES, connector="mysql", epoch=1)
LARGE, SMALL = 60, 1
"""Keys; a row's note is as long."""


def pieces(way: str, folder: Path) -> list[Piece]:
    """A small row, a large one updated, and deleted."""
    history = [
        [RowsOf(ORDERS, "c", ((SMALL, SMALL), (LARGE, LARGE)))],
        [RowsOf(ORDERS, "u", ((LARGE, LARGE),)), RowsOf(ORDERS, "d", ((LARGE, LARGE),))],
    ]
    source = Source([list(actions) for actions in history], gtids=True)
    # A small row's record has 530 bytes, one with a large image 180 more.
    rules = replace(RULES, oversize=way, claims=str(folder), largest=640, max_batch_bytes=600)
    return run(source.chunks(source.first, (False,)), first_cursor(source), rules=rules)


def test_a_claim_has_the_images_of_the_record_that_would_have_been(tmp_path: Path) -> None:
    plain = [r for r in records_of(pieces("stop", tmp_path)) if r.topic == "aq.shop.orders"]
    found = pieces("claim_check", tmp_path)
    light = [r for r in records_of(found) if r.topic == "aq.shop.orders"]
    assert [(r.key, dict(r.headers)["change_id"]) for r in plain] == [
        (r.key, dict(r.headers)["change_id"]) for r in light
    ]
    pointers = 0
    for whole, record in zip(plain, light, strict=True):
        if record.value is None or "claim_check" not in record.value:
            assert record.op == whole.op
            assert record.value is None or record.value["after"] == whole.value["after"]
            continue
        pointers += 1
        answer = record.value["claim_check"]
        assert orjson.loads(dict(record.headers)["claim_check"]) == answer
        stored = Path(unquote(urlsplit(answer["location"]).path)).read_bytes()
        assert (len(stored), hashlib.sha256(stored).hexdigest()) == (
            answer["size"],
            answer["sha256"],
        )
        assert record.value["before"] is record.value["after"] is None
        redeemed = record.value | orjson.loads(stored) | {"ts_ms": 0}
        del redeemed["claim_check"]
        assert redeemed == whole.value | {"ts_ms": 0}
    assert pointers == 3
    assert sum(piece.counts.oversize["claim_check"] for piece in found) >= 3
    assert found[-1].seq == 4


def test_a_record_without_its_images_says_what_it_lacks(tmp_path: Path) -> None:
    light = [r for r in records_of(pieces("key_only", tmp_path)) if r.topic == "aq.shop.orders"]
    lacking = [r for r in light if r.value and "left_out" in r.value]
    assert [(r.op, sorted(r.value["left_out"])) for r in lacking] == [
        ("c", ["after"]),
        ("u", ["after", "before"]),
        ("d", ["before"]),
    ]
    assert [r.seq for r in lacking] == [2, 3, 4]
    for record in lacking:
        assert record.value["before"] is None
        assert record.value["after"] is None
        assert orjson.loads(dict(record.headers)["left_out"]) == record.value["left_out"]
    assert list(tmp_path.iterdir()) == []


def value_of(epoch: int, *, after: str = '{"id":1,"v":"\u00e9 ,\\"after\\":1}"}') -> bytes:
    """A row's value as a leader of some epoch publishes it."""
    source = {"ts_ms": 1_795_234_567_123, "epoch": epoch}
    rest = orjson.dumps({"source": source, "op": "c", "ts_ms": 1_795_234_570_000 + epoch}).decode()
    return f'{{"before":null,"after":{after},{rest[1:]}'.encode()


def test_what_was_stored_has_its_topic_and_day_in_its_name() -> None:
    store, value = MemoryStore(), value_of(1)
    way = OversizeRecords(replace(RULES, oversize="claim_check", largest=1), store)
    key, light, headers = way.of(FORMAT)("aq.shop.orders", (b"k", value, [("change_id", b"x#0")]))
    ((name, kept),) = store.values.items()
    assert name == f"aq.shop.orders/2026-11-21/{hashlib.sha256(kept).hexdigest()}.json"
    images = {name: orjson.loads(value)[name] for name in ("before", "after")}
    assert orjson.loads(kept) == images
    assert value.startswith(kept[:-1])
    assert key == b"k"
    assert [header for header, _ in headers] == ["change_id", "claim_check"]
    assert way.counts == {"claim_check": 1}
    assert way.saved == len(value) - len(light or b"")


def test_the_same_change_is_the_same_object_with_any_publisher() -> None:
    store, pointers = MemoryStore(), []
    for epoch in (1, 2):
        way = OversizeRecords(replace(RULES, oversize="claim_check", largest=1), store)
        _, light, _ = way.of(FORMAT)("aq.shop.orders", (b"k", value_of(epoch), []))
        pointers.append(orjson.loads(light or b""))
    assert len(store.values) == 1
    assert pointers[0]["claim_check"] == pointers[1]["claim_check"]
    assert [pointer["source"]["epoch"] for pointer in pointers] == [1, 2]
    way.of(FORMAT)("aq.shop.orders", (b"k", value_of(2, after='{"id":2}'), []))
    assert len(store.values) == 2


def test_a_tombstone_stays_as_it_is() -> None:
    way = OversizeRecords(replace(RULES, oversize="key_only", largest=1), MemoryStore())
    assert way.of(FORMAT)("t", (b"k", None, [])) == (b"k", None, [])


class TestFolderStore:
    def test_a_value_is_there_whole_under_its_name_and_nothing_else_is(
        self, tmp_path: Path
    ) -> None:
        location = FolderStore(str(tmp_path)).put("t/d/x.json", b"value")
        assert location == (tmp_path / "t/d/x.json").as_uri()
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / "t/d/x.json"]
        assert (tmp_path / "t/d/x.json").read_bytes() == b"value"

    def test_a_day_that_was_cleaned_up_meanwhile_is_made_again(self, tmp_path: Path) -> None:
        store = FolderStore(str(tmp_path))
        store.put("t/d/x.json", b"value")
        shutil.rmtree(tmp_path / "t/d")
        store.put("t/d/y.json", b"value")
        assert store.get("t/d/y.json") == b"value"

    def test_it_is_synced_before_it_has_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str] = []
        sync, name = os.fsync, Path.replace

        def synced(descriptor: int) -> None:
            seen.append("sync")
            sync(descriptor)

        def named(path: Path, to: Path) -> Path:
            seen.append("name")
            return name(path, to)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(Path, "replace", named)
        store = FolderStore(str(tmp_path))
        store.put("t/d/x.json", b"value")
        assert seen == ["sync", "sync", "sync", "name", "sync"]

    def test_a_store_that_is_missing_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(ClaimStoreLost, match="claim_check_path"):
            FolderStore(str(tmp_path / "unmounted")).put("t/d/x.json", b"value")
        assert list(tmp_path.iterdir()) == []

    def test_a_disk_that_is_full_leaves_nothing_half_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        (tmp_path / "t/d").mkdir(parents=True)
        store = FolderStore(str(tmp_path))
        store.put("t/d/first.json", b"value")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ClaimStoreLost, match="No space left"):
            store.put("t/d/x.json", b"value")
        assert [path.name for path in tmp_path.rglob("*.json*")] == ["first.json"]


def test_limits_are_those_of_a_batch_as_it_is_sent(tmp_path: Path) -> None:
    source = Source([[RowsOf(ORDERS, "c", ((LARGE, LARGE),))]], gtids=True)
    rules = replace(
        RULES, oversize="key_only", claims=str(tmp_path), largest=WHOLE, max_batch_bytes=600
    )
    (piece,) = run(source.chunks(source.first, (False,)), first_cursor(source), rules=rules)
    assert piece.counts.oversize == {}
