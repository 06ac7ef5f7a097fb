"""Which changes of a mapping give published rows other keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.kafka.reading import StoredRecord
from connectors.mysql.position import Coordinates
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import MaskingKeys
from tables.rules.routes.routes import Routes
from tables.rules.routes.written_topics import changed_keys, changes_refused, returning
from tables.rules.table_version import TableVersion
from tables.state.journal.state import DestinationState, encoded, version_key
from wire.table_version import Column, Definition

NAME = ("shop", "orders")
KEYS = MaskingKeys((("k1", bytes(32)), ("k2", bytes(range(32)))))
SHARD = "they begin with the real table (shard_in_key)"


def routes(rules: str) -> Routes:
    """The routes of a table in the topic ``aq.t``; without rules, in its own topic ``aq.shop.orders``."""
    text = f"{{tables: {{shop.orders: {{{rules}}}}}}}" if rules else "{}"
    return Routes(prefix="aq", destination="m1", mapping=from_yaml(text), keys=KEYS)


def version(rules: str, *key: str) -> TableVersion:
    """The version by which the table was published."""
    route = routes(rules).of(NAME)
    assert route is not None
    one = TableVersion(
        destination="m1", database="shop", table="orders", version=1, topic=route.topic,
        definition=Definition(columns=(), primary_key=key),
        gtid=None, coordinates=Coordinates("b.000001", 4), ts_ms=1, stated=route.stated,
    )  # fmt: skip
    assert TableVersion.from_json(one.to_json()) == one
    return one


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("", "shard_in_key: always", SHARD),
        ("topic: t", "topic: t, shard_in_key: always", SHARD),
        ("topic: t, shard_in_key: always", "topic: t", SHARD.replace("begin", "no longer begin")),
        ("topic: t", "from: ['orders.*'], topic: t", SHARD),
        ("topic: t", "topic: t, key: [Region, id]", "their columns are region, id, and were id"),
        ("topic: t, key: [id]", "topic: t, key: [region]", "their columns are region, and were id"),
        ("topic: t", "topic: t, partition_by: [region]", "other columns choose their partitions"),
        ("topic: t", "topic: t, column_actions: {ID: {hmac: k1}}", "id of the key is masked"),
        (
            "topic: t, column_actions: {id: {hmac: k1}}",
            "topic: t, column_actions: {id: {hmac: k2}}",
            "id of the key is masked otherwise",
        ),
        (
            "topic: t, column_actions: {id: {hmac: k1}}",
            "topic: t",
            "id of the key is no longer masked",
        ),
    ],
)
def test_a_mapping_that_changes_keys_in_a_topic_is_refused_by_name(
    before: str, after: str, change: str
) -> None:
    versions = [version(before, "id")]
    (found,) = changed_keys(routes(after), versions)
    assert found.startswith("shop.orders in aq.")
    assert found.partition(": ")[2].startswith(change)
    assert "state accept: [changed_keys]" in str(changes_refused([found]))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("topic: t", "topic: t, key: [ID]"),
        ("topic: t", "topic: t, tags: {status: paid}, row_filter: 'id > 1', operations: [insert]"),
        ("topic: t", "topic: t, column_actions: {note: {hmac: k1}, x: {rename: number}}"),
        ("topic: t", "topic: other, shard_in_key: always"),
        ("", "topic: t, key: [region]"),
        ("topic: t, shard_in_key: always, partition_by: [id]",) * 2,
    ],
)
def test_what_changes_no_key_in_its_topic_is_not_refused(before: str, after: str) -> None:
    assert changed_keys(routes(after), [version(before, "id")]) == []


def test_a_rule_that_repeats_the_primary_key_may_go_if_that_is_known() -> None:
    versions = [version("topic: t, key: [id]", "id")]
    assert changed_keys(routes("topic: t"), versions, lambda _: ("id",)) == []
    assert changed_keys(routes("topic: t"), versions, lambda _: ("number",))
    assert changed_keys(routes("topic: t"), versions)


def test_keys_in_a_connectors_form_are_others() -> None:
    given = replace(version("topic: t", "id"), stated=None)
    for before, after in (("debezium", "connect"), ("connect", "canal")):
        changed = changed_keys(
            routes(f"topic: t, format: {after}"), [replace(given, format=before)]
        )
        assert changed[0].endswith(f"they have the form of {after}, and had that of {before}")
    keyless = replace(version("topic: t"), format="debezium")
    assert changed_keys(routes("topic: t, format: connect"), [keyless]) == []
    assert changed_keys(routes("topic: t, format: canal"), [given]) == []


CONNECT = {
    "decimal": "precise", "decimal_format": "base64", "time": "adaptive_time_microseconds",
    "bigint_unsigned": "long", "binary": "bytes", "adjust_years": True, "key_schemas": False,
    "value_schemas": False, "unwrap": False,
}  # fmt: skip
COLUMNS = tuple(
    Column(name=name, type=kind, nullable=True, charset=None)
    for name, kind in {
        "id": "decimal(10,0)", "price": "decimal(10,2)", "day": "date", "at": "timestamp",
        "much": "bigint unsigned", "n": "bigint", "raw": "varbinary(9)",
    }.items()
)  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value", "change"),
    [
        ("decimal", "string", "another form of id (in keys too), price (connect.decimal: string, was precise)"),
        (
            "decimal_format", "numeric",
            "another form of id, price (connect.decimal_format: numeric, was base64)",
        ),
        ("time", "connect", "another form of day (connect.time: connect, was adaptive_time_microseconds)"),
        ("adjust_years", False, "another form of day (connect.adjust_years: false, was true)"),
        ("bigint_unsigned", "precise", "another form of much (connect.bigint_unsigned: precise, was long)"),
        ("binary", "hex", "another form of raw (connect.binary: hex, was bytes)"),
        ("key_schemas", True, "another form of all keys (connect.key_schemas: true, was false)"),
        ("value_schemas", True, "another form of all values (connect.value_schemas: true, was false)"),
        ("unwrap", True, "another form of all values (connect.unwrap: true, was false)"),
    ],
)  # fmt: skip
def test_another_form_of_a_connectors_records_is_refused_by_the_columns_that_have_it(
    setting: str, value: object, change: str
) -> None:
    before = replace(routes("topic: t, format: connect"), connect=CONNECT)
    after = replace(before, connect={**CONNECT, setting: value})
    route = before.of(NAME)
    assert route is not None
    of_all = replace(
        version("topic: t", "id"),
        definition=Definition(columns=COLUMNS, primary_key=("id",)),
        format="connect",
        stated=route.stated,
    )
    assert TableVersion.from_json(of_all.to_json()) == of_all
    assert changed_keys(before, [of_all]) == []
    (found,) = changed_keys(after, [of_all])
    assert found == f"shop.orders in aq.t: {change}"
    assert "state accept: [changed_keys]" in str(changes_refused([found]))
    # A table without such columns, and one whose versions are from before this was recorded.
    text = Column(name="note", type="varchar(9)", nullable=True, charset="utf8mb4")
    other = replace(of_all, definition=Definition(columns=(text,), primary_key=()))
    refused = {"value_schemas", "unwrap"}
    assert bool(changed_keys(after, [other])) is (setting in refused)
    assert changed_keys(after, [replace(of_all, stated={})]) == []
    # In other formats, the settings have no effect.
    assert changed_keys(
        replace(after, mapping=from_yaml("{tables: {shop.orders: {topic: t, format: maxwell}}}")),
        [replace(of_all, format="maxwell")],
    ) == []  # fmt: skip


def test_tables_that_are_unknown_or_captured_no_more_are_not_judged() -> None:
    old = TableVersion.from_json(
        {
            key: value
            for key, value in version("topic: t", "id").to_json().items()
            if key != "mapping"
        }
    )
    assert old.stated is None
    assert changed_keys(routes("topic: t, shard_in_key: always"), [old]) == []
    assert not changed_keys(
        routes("topic: t, shard_in_key: always, black: 'shop[.]orders'"),
        [version("topic: t", "id")],
    )


def test_a_mapping_that_returns_to_a_topic_is_compared_with_what_the_topic_last_had() -> None:
    made = [
        version("topic: t, key: [id]", "id"),
        replace(version("topic: t, key: [region]", "region"), version=2),
        replace(version("topic: u, key: [id]", "id"), version=3),
    ]
    state = DestinationState("m1")
    # A compacted journal may have them in any order.
    for offset, one in enumerate([made[2], made[1], made[0]]):
        state.apply(StoredRecord(version_key(one), encoded(one.to_json()), offset))
    assert state.versions == {NAME: made[2]}
    (found,) = changed_keys(routes("topic: t, key: [id]"), state.published)
    assert found == "shop.orders in aq.t: their columns are id, and were region"
    assert changed_keys(routes("topic: t, key: [region]"), state.published) == []
    assert changed_keys(routes("topic: u, key: [region]"), state.published)
    assert changed_keys(routes("topic: new, key: [region]"), state.published) == []
    for topic, back in (("t", [(made[1], made[2])]), ("u", []), ("new", [])):
        assert returning(routes(f"topic: {topic}"), state.published) == back
