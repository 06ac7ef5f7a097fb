"""Records in other formats against those that the same history has as envelopes."""

from __future__ import annotations

import hashlib
import traceback
from dataclasses import replace
from decimal import InvalidOperation
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
import pytest
from aiokafka.record import MemoryRecords

from app.worker.pipeline.formats import registry
from app.worker.pipeline.formats import shaped as module
from app.worker.pipeline.formats.canal import CANAL
from app.worker.pipeline.formats.registry import FORMATS, form_named
from app.worker.pipeline.formats.shape import Shape
from app.worker.pipeline.formats.shaped import ShapedFactory, envelope_of
from app.worker.pipeline.piece import Piece
from connectors.errors import RecordNotEncodable, Retry
from tables.rules.mapping import rules as names
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.actions import TABLES, Ddl, RowsOf, Truncate
from tests.unit.app.worker.pipeline.formats.envelopes import version_of
from tests.unit.app.worker.pipeline.history import Source
from tests.unit.app.worker.pipeline.runs import RULES, Record, pieces_of, records_of, versions_of
from wire.records import SOURCE, Field

ORDERS, LOG = TABLES[:2]
FOREIGN = ("canal", "maxwell")
ADDED = ("format", "destination", "seq", "epoch", "ts_ms", "gtid", "schema")
HISTORY: list[list[Any]] = [
    [RowsOf(ORDERS, "c", ((1, 1), (2, 2))), RowsOf(LOG, "c", ((9, 9),))],
    [RowsOf(ORDERS, "u", ((1, 1), (2, 3)))],
    [RowsOf(ORDERS, "d", ((1, 1),))],
    [Truncate(ORDERS)],
]


def routes(name: str, **database: Any) -> Routes:
    """Both tables in one topic, in a format."""
    entry = {"from": ["shop"], "topic": "t", "format": name, **database}
    mapping = from_yaml(orjson.dumps({"databases": {"trade": entry}}).decode())
    return Routes(prefix="aq", include=r"shop\..*", destination="shop", mapping=mapping)


def pieces(name: str, **rules: Any) -> list[Piece]:
    source = Source([list(actions) for actions in HISTORY], gtids=True)
    return pieces_of(source, **({"routes": routes(name)} | rules))


def of_rows(found: list[Piece]) -> list[Record]:
    return [one for one in records_of(found) if one.topic == "aq.t"]


@pytest.mark.parametrize("name", FOREIGN)
def test_each_envelope_is_one_record_with_its_key_and_headers(name: str) -> None:
    envelopes = [one for one in of_rows(pieces("debezium")) if one.value is not None]
    found = of_rows(pieces(name))
    assert [one.key for one in found] == [one.key for one in envelopes]
    for shaped, whole in zip(found, envelopes, strict=True):
        headers, source = dict(shaped.headers), whole.value["source"]
        own = [headers.pop(one).decode() for one in ADDED]
        assert headers == dict(whole.headers)
        numbers = [str(source[one]) for one in ("seq", "epoch", "ts_ms", "gtid", "schema")]
        assert own == [name, "shop", *numbers]
        assert shaped.partition == whole.partition
    kinds = {"c": "insert", "u": "update", "d": "delete"}
    shown = [one.value["type"].lower() for one in found]
    assert shown[:-1] == [kinds[one.op] for one in envelopes[:-1]]
    assert shown == [
        *("insert",) * 3, "update", "delete", "insert", "delete",
        {"canal": "truncate", "maxwell": "table-truncate"}[name],
    ]  # fmt: skip


@pytest.mark.remedy("RecordNotEncodable")
@pytest.mark.parametrize(
    "kind", [ValueError, KeyError, TypeError, RecursionError, OverflowError, InvalidOperation]
)
def test_what_cannot_be_written_is_named_without_any_value_and_passes_in_another_format(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def fail(_envelope: object) -> dict[str, Any]:
        raise kind("a secret of the row")

    broken = replace(CANAL, rows=lambda _version: fail)
    monkeypatch.setattr(registry, "FORMATS", {**FORMATS, "canal": ShapedFactory(broken)})
    with pytest.raises(RecordNotEncodable) as found:
        pieces("canal")
    shown = "".join(traceback.format_exception(found.value))
    assert "secret" not in shown
    assert found.value.detail == kind.__name__
    named = {"format": "canal", "table": "shop.orders"}
    assert named.items() <= found.value.context.items()
    assert {"gtid", "coordinates"} <= found.value.context.keys()
    assert found.value.retry is Retry.MANUAL
    assert of_rows(pieces("maxwell"))
    assert not of_rows(pieces("canal", routes=replace(routes("canal"), black=r"shop\..*")))


@pytest.mark.parametrize("name", FOREIGN)
def test_numbers_markers_statements_and_counts_are_those_of_envelopes(name: str) -> None:
    def others(found: list[Piece]) -> list[Any]:
        return [
            (one.topic, one.key, one.value.get("data_collections"), one.value.get("ddl"))
            for one in records_of(found)
            if one.topic != "aq.t" and "__schemas" not in one.topic
        ]

    own, plain = pieces(name), pieces("debezium")
    assert others(own) == others(plain)
    assert own[-1].seq == plain[-1].seq
    assert [one.counts.rows for one in own] == [one.counts.rows for one in plain]


@pytest.mark.parametrize("name", FOREIGN)
def test_the_version_of_a_table_names_the_format(name: str) -> None:
    assert {one.format for one in versions_of(pieces(name))} == {name}
    assert {one.to_json()["record_format"] for one in versions_of(pieces(name))} == {name}
    # The journal keeps it with the number of its own format in the member of this name.
    assert all("format" not in one.to_json() for one in versions_of(pieces(name)))
    assert all("record_format" not in one.to_json() for one in versions_of(pieces("debezium")))


@pytest.mark.parametrize("name", FOREIGN)
def test_only_a_compacted_topic_has_tombstones(name: str) -> None:
    assert all(one.value is not None for one in of_rows(pieces(name)))
    found = [one for one in of_rows(pieces(name, compacted=True)) if one.value is None]
    assert [dict(one.headers)["format"] for one in found] == [name.encode()] * 2


def test_the_rows_of_a_transaction_share_an_xid_that_no_other_has() -> None:
    found = [one.value["xid"] for one in of_rows(pieces("maxwell"))]
    assert found == [1, 1, 1, 4, 4, 4, 7, 9]


@pytest.mark.parametrize(
    ("real", "named"), [("[shop.orders]", "trade"), ("[shop.orders, other.orders]", "shop")]
)
@pytest.mark.parametrize("name", FOREIGN)
def test_a_truncate_of_one_shard_has_its_real_name(name: str, real: str, named: str) -> None:
    mapping = from_yaml(f"{{tables: {{trade.orders: {{from: {real}, format: {name}}}}}}}")
    found = records_of(pieces(name, routes=replace(routes(name), mapping=mapping)))
    *_, last = [one for one in found if one.topic == "aq.trade.orders"]
    assert last.value["type"].lower().endswith("truncate")
    assert (last.value["database"], last.value["table"]) == (named, "orders")


@pytest.mark.parametrize("name", FOREIGN)
def test_rows_after_a_statement_have_the_columns_of_their_version(name: str) -> None:
    rows = RowsOf(ORDERS, "c", ((1, 1),))
    widened: list[list[Any]] = [[rows], [Ddl("ALTER TABLE orders ADD c INT", ORDERS)], [rows]]
    found = of_rows(pieces_of(Source(widened, gtids=True), routes=routes(name)))
    images = [one.value["data"] for one in found]
    before, after = [one[0] if name == "canal" else one for one in images]
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("compacted", [False, True])
def test_the_size_of_a_chunk_is_that_of_its_own_records(*, compacted: bool) -> None:
    def uncounted(name: str) -> int:
        """Bytes of keys that a compacted topic adds."""
        found = pieces(name, compacted=compacted, markers=False)
        raw = sum(_bytes(batch.raw) for piece in found for batch in piece.batches)
        return raw - sum(piece.size for piece in found)

    for name in FOREIGN:
        assert uncounted(name) == uncounted("debezium")


def _bytes(raw: bytes | bytearray) -> int:
    """Bytes of the keys and values of a batch."""
    found, held = 0, MemoryRecords(bytes(raw))
    while (read := held.next_batch()) is not None:
        found += sum(len(one.key or b"") + len(one.value or b"") for one in read)
    return found


@pytest.mark.parametrize("name", FOREIGN)
def test_a_claim_has_the_data_of_the_record_that_would_have_been(name: str, tmp_path: Path) -> None:
    plain = of_rows(pieces(name))
    small = {
        "oversize": "claim_check",
        "claims": str(tmp_path),
        "largest": 10,
        "max_batch_bytes": 10,
    }
    light = of_rows(pieces(name, **small))
    for whole, record in zip(plain, light, strict=True):
        headers, claim = dict(record.headers), record.value.pop("claim_check")
        assert orjson.loads(headers.pop("claim_check")) == claim
        assert headers == dict(whole.headers)
        stored = Path(unquote(urlsplit(claim["location"]).path)).read_bytes()
        digest = hashlib.sha256(stored).hexdigest()
        assert (len(stored), digest) == (claim["size"], claim["sha256"])
        images = orjson.loads(stored)
        assert all(record.value[one] is None for one in images)
        assert {**record.value, **images, "ts": 0} == {**whole.value, "ts": 0}


def test_a_detached_number_keeps_its_digits() -> None:
    value = b'{"ts":1795234567,"data":{"a":12.500000000000000000001,"b":18446744073709551616},"old":{"a":1.10}}'
    found = FORMATS["maxwell"](RULES, connector="mysql", epoch=1).detach_images(value)
    assert found.images == value[value.index(b'"data"') :].join([b"{", b""])
    assert found.sizes == {"data": 55, "old": 10}
    assert found.committed_ms == 1795234567000
    assert found.value("left_out", {"data": 55}) == (
        b'{"ts":1795234567,"data":null,"old":null,"left_out":{"data":55}}'
    )


def test_each_format_that_a_mapping_may_name_is_one_entry_of_the_registry() -> None:
    assert FORMATS.keys() == set(names.FORMATS)
    assert set(names.NAMING_FORMATS) < set(names.FORMATS)
    for name in names.FORMATS:
        if name == names.DEBEZIUM:
            with pytest.raises(KeyError):
                form_named(name, RULES)
        else:
            assert form_named(name, RULES) is not None


PIPES = Shape(
    name="pipes",
    rows=lambda _version: lambda envelope: {"what": "now", "of": "a/b", "row": envelope["after"]},
    values=lambda _kind: None,
    truncation=lambda _envelope, table: {"what": "none", "of": "/".join(table)},
    committed_ms=lambda value: int(value["at"]),
    op=lambda value: {"none": "t", "gone": "d"}.get(value["what"], "u"),
    table=lambda value: tuple(value["of"].split("/")),
    image=lambda value: value["row"],
    images=("row",),
)
"""A shape none of whose members has a name that another one has."""


def test_a_shape_alone_states_how_its_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "FORMATS", {**FORMATS, "pipes": ShapedFactory(PIPES)})
    form = form_named("pipes", RULES)
    definition = version_of(("id", "int")).definition
    assert form.written(("a", "b"), definition)({"id": 5}).keys() == {"id"}
    read = form.read(None, b'{"what":"now","of":"a/b","row":{"id":5},"at":7}', {"schema": b"2"})
    assert (read.op, read.table, read.is_real, read.schema) == ("u", ("a", "b"), False, 2)
    assert orjson.dumps(read.image) == b'{"id":5}'
    found = [form.read(None, b'{"what":"%b","of":"a/b"}' % what, {}) for what in (b"none", b"gone")]
    assert [(one.op, one.image) for one in found] == [("t", None), ("d", None)]
    detached = ShapedFactory(PIPES)(RULES, connector="mysql", epoch=1).detach_images(
        b'{"what":"now","of":"a/b","row":{"id":5},"at":7}'
    )
    assert (detached.images, detached.committed_ms) == (b'{"row":{"id":5}}', 7)


def test_a_row_is_compared_as_an_envelope_with_each_member_that_none_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = envelope_of(("shop", "t"), {})["source"]
    needed = {name for name, one in SOURCE.items() if not one.optional}
    assert needed <= source.keys() <= SOURCE.keys()
    monkeypatch.setattr(module, "SOURCE", {**SOURCE, "later": Field("long")})
    assert envelope_of(("shop", "t"), {})["source"] == {**source, "later": 0}
