"""Records in the format ``connect`` against what a real connector wrote: values, keys, schemas, rows alone."""

from __future__ import annotations

from typing import Any

import orjson

from app.settings.connect_form import ConnectForm
from app.worker.pipeline.formats.connect import (
    Connect,
    ConnectFactory,
    ConnectRecords,
)
from app.worker.pipeline.formats.protocol import Emitted
from app.worker.pipeline.formats.transcoded import TranscodedRecords, TranscodingWriter
from app.worker.pipeline.rules import PublishingRules
from connectors.mysql.types.registry import Modes
from tables.rules.routes.routes import Routes
from tests.unit.app.worker.pipeline.formats.envelopes import envelope_of, version_of
from wire.records import HEADER_FORMAT, HEADER_NEW_KEY

VERSION = version_of(("id", "decimal(6,2)"), ("d", "date"), ("x", "int"), key=("id", "d"))
ROW = {"id": "5.25", "d": "2026-11-21", "x": 7}
KEY = b'{"id":"5.25","d":"2026-11-21"}'
OWN_KEY = b'{"id":"Ag0=","d":20778}'
KEY_SCHEMA = (
    b'{"type":"struct","fields":[{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal",'
    b'"version":1,"parameters":{"scale":"2","connect.decimal.precision":"6"},"field":"id"},{"type":"int32",'
    b'"optional":true,"name":"io.debezium.time.Date","version":1,"field":"d"}],"optional":false,"name":"aq.orders.Key"}'
)


def rules(**form: Any) -> PublishingRules:
    return PublishingRules(
        destination="shop", routes=Routes(prefix="aq"), markers=False, compression=None, max_bytes=1,
        max_batch_bytes=1, connect=ConnectForm(**form),
        oversize="stop",
    )  # fmt: skip


def connect(**form: Any) -> Connect:
    return Connect(rules(**form), connector="mysql", epoch=3)


def test_a_record_has_the_connectors_members_in_its_order() -> None:
    found = connect(name="inv_shop").rows(VERSION)(envelope_of(None, ROW))
    assert found.decode() == (
        '{"before":null,"after":{"id":"Ag0=","d":20778,"x":7},"source":{"version":"0.1.0","connector":"mysql",'
        '"name":"inv_shop","ts_ms":1795234567123,"snapshot":"false","db":"shop_1","sequence":null,'
        '"ts_us":1795234567123000,"ts_ns":1795234567123000000,"table":"orders_3","server_id":1,'
        '"gtid":"3e11fa47-71ca-11e1-9e33-c80aa9429562:23","file":"binlog.000002","pos":1543,"row":0,"thread":12,'
        '"query":null},"transaction":null,"op":"c","ts_ms":1795234567240,"ts_us":1795234567240000,'
        '"ts_ns":1795234567240000000}'
    )


def test_schemas_name_the_topic_and_every_member_of_the_payload() -> None:
    format_ = connect(key_schemas=True, value_schemas=True)
    assert format_.keys(VERSION)(KEY) == b'{"schema":%b,"payload":%b}' % (KEY_SCHEMA, OWN_KEY)
    found = orjson.loads(format_.rows(VERSION)(envelope_of(ROW, ROW)))
    schema, payload = found["schema"], found["payload"]
    assert (schema["name"], schema["version"]) == ("aq.orders.Envelope", 2)
    assert [one["field"] for one in schema["fields"]] == list(payload)
    named = {one["field"]: one for one in schema["fields"]}
    assert [one["field"] for one in named["source"]["fields"]] == list(payload["source"])
    assert [one["field"] for one in named["after"]["fields"]] == list(payload["after"])
    assert named["before"]["name"] == named["after"]["name"] == "aq.orders.Value"


def test_a_row_alone_is_null_after_a_delete_and_has_no_tombstone() -> None:
    encode = connect(unwrap=True).rows(VERSION)
    assert encode(envelope_of(ROW, ROW)) == b'{"id":"Ag0=","d":20778,"x":7}'
    assert encode(envelope_of(ROW, None)) == b"null"
    assert not ConnectFactory.keeps_tombstones(rules(unwrap=True))
    assert not ConnectFactory.keeps_tombstones(rules(tombstones=False))
    assert ConnectFactory.keeps_tombstones(rules())
    both = connect(unwrap=True, value_schemas=True).rows(VERSION)(envelope_of(ROW, None))
    assert orjson.loads(both)["payload"] is None
    assert orjson.loads(both)["schema"]["optional"]


class Written:
    """What a format passes on."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def append(self, *record: Any) -> None:
        self.records.append(record)


def test_keys_have_the_modes_values_in_headers_too_and_what_chooses_a_partition_stays() -> None:
    format_, into, emitted = connect(), Written(), Emitted(0)
    writer = TranscodingWriter(
        into, format_.rows(VERSION), format_.keys(VERSION), format_=format_, emitted=emitted
    )
    value = orjson.dumps(envelope_of(ROW, None))
    writer.append(KEY + b"\0place", value, [(HEADER_NEW_KEY, KEY + b"\0place")])
    writer.append(KEY, None, [])
    (key, _, headers), tombstone = into.records
    assert key == OWN_KEY + b"\0place"
    assert dict(headers)[HEADER_NEW_KEY] == OWN_KEY + b"\0place"
    assert tombstone == (OWN_KEY, None, [(HEADER_FORMAT, b"connect")])
    assert isinstance(format_.records(emitted, 0), TranscodedRecords)


def test_images_are_taken_out_of_a_record_with_and_without_its_schema() -> None:
    row = {**ROW, "x": 9}
    for schemas in (False, True):
        format_ = connect(value_schemas=schemas)
        detached = format_.detach_images(format_.rows(VERSION)(envelope_of(None, row)))
        assert detached.images == b'{"before":null,"after":{"id":"Ag0=","d":20778,"x":9}}'
        left = orjson.loads(detached.value("left_out", {"after": 1}))
        payload = left["payload"] if schemas else left
        assert (payload["after"], payload["left_out"]) == (None, {"after": 1})


def test_a_validation_reads_what_it_writes() -> None:
    form = ConnectRecords(rules(value_schemas=True, modes=Modes(decimal_format="numeric")))
    table = ("shop_1", "orders_3")
    written = form.written(table, VERSION.definition)(ROW)
    value = Connect(form._rules, connector="mysql", epoch=1).rows(VERSION)(envelope_of(None, ROW))
    read = form.read(OWN_KEY, value, {})
    assert (read.op, read.table, read.is_real) == ("u", table, True)
    assert read.image is not None
    assert orjson.dumps(read.image) == orjson.dumps(written) == b'{"id":5.25,"d":20778,"x":7}'


def test_a_validation_refuses_keys_of_another_form_and_rows_alone() -> None:
    plain = version_of(("id", "int"), ("d", "date")).definition
    incomparable = ConnectFactory.incomparable
    assert incomparable(rules(), plain) == ""
    assert "keys" in incomparable(rules(), VERSION.definition)
    assert "keys" in incomparable(rules(key_schemas=True), plain)
    assert "connect.unwrap" in incomparable(rules(unwrap=True), plain)
