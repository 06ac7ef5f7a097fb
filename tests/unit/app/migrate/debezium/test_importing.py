"""Connectors against the files and the report that come of them, which are golden files."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
import yaml

from app.migrate.debezium.importing import import_debezium
from app.migrate.draft import Imported, Outcome
from app.settings.mapping import ConnectSettings
from app.settings.model import CONFIG_VARIABLE, DestinationSettings, load
from connectors.errors import UsageError
from tables.rules.routes.routes import Routes
from tables.rules.table_filter import TableFilter
from tests.unit.app.migrate.golden import assert_golden, create_password_files

CASES = Path(__file__).parent / "cases"
NAMES = sorted(case.name for case in CASES.iterdir())


def imported(case: str) -> Imported:
    offsets = CASES / case / "offsets.json"
    given = offsets if offsets.is_file() else None
    return import_debezium(CASES / case / "connector.json", offsets=given, prefix="")


def written(folder: Path, config: dict[str, str]) -> Path:
    base = {"connector.class": "MySqlConnector", "database.hostname": "h", "database.user": "u"}
    path = folder / "connector.json"
    path.write_bytes(orjson.dumps(base | config))
    return path


def loaded(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, str], offsets: Path | None = None
) -> tuple[Imported, DestinationSettings]:
    """What is imported of a connector, as the worker reads it in the present folder."""
    folder = Path.cwd()
    found = import_debezium(written(folder, config), offsets=offsets, prefix="aq")
    settings = folder / "aqueduct.yaml"
    settings.write_text(found.settings)
    (folder / "mapping.yaml").write_text(found.mapping)
    create_password_files(settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(settings))
    (destination,) = load().destinations.values()
    return found, destination


@pytest.mark.parametrize("case", NAMES)
def test_a_connector_gives_the_files_that_are_recorded(case: str) -> None:
    assert_golden(CASES / case, imported(case))


@pytest.mark.parametrize("case", NAMES)
def test_the_worker_accepts_the_settings_once_the_passwords_are_written(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, found = tmp_path / "aqueduct.yaml", imported(case)
    settings.write_text(found.settings)
    (tmp_path / "mapping.yaml").write_text(found.mapping)
    create_password_files(settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(settings))
    monkeypatch.chdir(tmp_path)
    assert len(load().destinations) == 1


@pytest.mark.parametrize("case", NAMES)
def test_every_key_is_in_the_report_and_no_secret_is(case: str) -> None:
    found = imported(case)
    text = "\n".join([found.settings, found.mapping, *found.lines(), str(found.to_json())])
    assert "very-secret" not in text
    config = orjson.loads((CASES / case / "connector.json").read_bytes())
    keys = {key.replace("very-secret-salt", "…") for key in config.get("config", config)}
    assert keys - {one.key for one in found.findings} == set()


def test_only_a_key_that_debezium_does_not_have_is_unknown() -> None:
    unknown = [one.key for case in NAMES for one in imported(case).of(Outcome.UNKNOWN)]
    assert unknown == ["my.own.extension"]


@pytest.mark.parametrize(
    ("config", "captured", "others"),
    [
        ({"database.include.list": "shop,crm_.*"}, "shop.a crm_1.b", "shopx.a crm.b"),
        ({"table.include.list": "shop.a,shop\\.b"}, "shop.a SHOP.B", "shop.ab x.shop.a"),
        (
            {"database.include.list": "s1|s2", "table.include.list": ".*\\.a,s3.b|s1.c"},
            "s1.a s2.a s1.c",
            "s3.a s3.b s1.b",
        ),
        ({"database.exclude.list": "a|b"}, "c.t", "a.t b.t"),
        ({"table.exclude.list": "a.t,b\\..*"}, "a.u", "a.t b.u"),
        ({"column.exclude.list": "a\\.t\\.ssn,b.u.ssn"}, "a.t a.u b.t b.u", ""),
        ({"column.mask.with.3.chars": ".*\\.x\\.ssn"}, "a.t", "a.x b.x"),
        ({"column.exclude.list": ".*ssn"}, "", "a.t"),
        ({"column.include.list": "a.t.id,a.t.x,b.u.id,c\\..*\\.id"}, "a.t b.u", "a.u a.t2 c.x"),
        ({"column.include.list": "c\\..*\\.id"}, "", "c.x"),
        ({"table.include.list": "a.t,(b"}, "", "a.t b.t"),
    ],
)
def test_the_filter_captures_what_debezium_does_but_no_table_with_hidden_columns(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, str],
    captured: str,
    others: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    _, destination = loaded(monkeypatch, config)
    tables = TableFilter(destination.filter.include, destination.filter.black)
    assert [name for name in captured.split() if not tables.captures(*name.split("."))] == []
    assert [name for name in others.split() if tables.captures(*name.split(".", 1))] == []


@pytest.mark.parametrize(
    ("config", "mode", "has_start"),
    [
        ({}, "initial", False),
        ({"snapshot.mode": "initial"}, "initial", False),
        ({"snapshot.mode": "Always"}, "initial", False),
        ({"snapshot.mode": "initial_only"}, "initial_only", False),
        ({"snapshot.mode": "when_needed"}, "when_needed", False),
        ({"snapshot.mode": "no_data"}, "never", True),
        ({"snapshot.mode": "never"}, "never", True),
        ({"snapshot.mode": "configuration_based"}, "never", True),
    ],
)
def test_a_connector_without_an_offset_begins_with_its_rows_as_it_did(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, str],
    mode: str,
    has_start: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    found, destination = loaded(monkeypatch, config)
    assert destination.snapshot.mode == mode
    assert (destination.start is not None) == has_start
    asked = "\n".join(one.text for one in found.of(Outcome.BY_HAND))
    assert "give --offsets" in asked or mode == config.get("snapshot.mode") == "never"


@pytest.mark.parametrize("mode", ["recovery", "RECOVERY", "schema_only_recovery"])
def test_recovery_is_taken_over_and_begins_at_the_offset_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found, destination = loaded(monkeypatch, {"snapshot.mode": mode})
    assert (destination.snapshot.mode, destination.start) == ("recovery", None)
    asked = [one.text for one in found.of(Outcome.BY_HAND) if one.key == "snapshot.mode"]
    assert ["give --offsets" in text for text in asked] == [True]
    offsets = tmp_path / "offsets.json"
    offsets.write_text(
        '{"offsets":[{"partition":{"server":"s"},"offset":{"file":"b.000003","pos":157}}]}'
    )
    found, destination = loaded(monkeypatch, {"snapshot.mode": mode}, offsets)
    assert destination.snapshot.mode == "recovery"
    assert destination.start is not None
    asked = [one.text for one in found.of(Outcome.BY_HAND) if one.key == "snapshot.mode"]
    assert asked == ["set snapshot.mode to never once the worker has run"]


def test_the_table_of_signals_is_taken_over(tmp_path: Path) -> None:
    config = {"signal.data.collection": "server1.shop.signals"}
    found = import_debezium(written(tmp_path, config), offsets=None, prefix="aq")
    assert "signal_table: shop.signals" in found.settings


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", "no JSON object"),
        ("{", "not JSON"),
        ("{}", "has no configuration"),
        ('{"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}', "Postgres"),
    ],
)
def test_a_file_that_is_no_connector_is_named(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=fault):
        import_debezium(path, offsets=None, prefix="")


@pytest.mark.parametrize("text", ["{}", "nonsense", '{"offsets":[]}', '{"offsets":[{},{}]}'])
def test_a_file_that_is_no_offset_is_named(tmp_path: Path, text: str) -> None:
    offsets = tmp_path / "offsets"
    offsets.write_text(text)
    with pytest.raises(UsageError, match=r"no offset of Debezium|several sources"):
        import_debezium(written(tmp_path, {}), offsets=offsets, prefix="")


JSON = "org.apache.kafka.connect.json.JsonConverter"
KEPT: dict[str, str] = {
    "topic.prefix": "inv_shop",
    "include.schema.changes": "false",
    **{f"{side}.converter": JSON for side in ("key", "value")},
    **{f"{side}.converter.schemas.enable": "false" for side in ("key", "value")},
}
"""A connector of which everything is kept."""


def topic_of(destination: DestinationSettings, table: tuple[str, str]) -> str:
    rules = tuple(one.rule() for one in destination.row_topics)
    return Routes(prefix="aq", row_topics=rules).topic(table)


def test_what_the_file_leaves_out_has_the_connectors_defaults_and_each_is_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, destination = loaded(monkeypatch, KEPT)
    assert found.of(Outcome.LOST) == []
    assert destination.format == "connect"
    assert destination.connect == ConnectSettings(source_name="inv_shop")
    assert topic_of(destination, ("inv_shop", "my items")) == "inv_shop.inv_shop.my_items"
    defaults = {one.key: one.file for one in found.findings if one.file.startswith("default of")}
    assert defaults == {
        name: f"default of Debezium: {value}"
        for name, value in {
            "topic.delimiter": ".",
            "topic.naming.strategy": "io.debezium.schema.SchemaTopicNamingStrategy",
            "decimal.handling.mode": "precise",
            "time.precision.mode": "adaptive_time_microseconds",
            "bigint.unsigned.handling.mode": "long",
            "binary.handling.mode": "bytes",
            "enable.time.adjuster": "true",
            "tombstones.on.delete": "true",
            "value.converter.decimal.format": "BASE64",
            "key.converter.decimal.format": "BASE64",
            "value.converter.replace.null.with.default": "true",
            "key.converter.replace.null.with.default": "true",
            "provide.transaction.metadata": "false",
            "heartbeat.interval.ms": "0",
            "skip.messages.without.change": "false",
            "extended.headers.enabled": "true",
            "event.processing.failure.handling.mode": "fail",
        }.items()
    }


@pytest.mark.parametrize(
    ("count", "action", "lost"),
    [
        ("3", {"redact": "***"}, "a NULL stays NULL"),
        ("300", {"redact": "*" * 300}, "a NULL stays NULL"),
        ("0", "redact", "each value is NULL, and no empty text"),
        ("16384", {"redact": "*" * 16383}, "each value has 16383 asterisks; a NULL stays NULL"),
    ],
)
def test_a_mask_has_as_many_asterisks_as_the_connectors_or_the_report_names_the_difference(
    tmp_path: Path, count: str, action: str | dict[str, str], lost: str
) -> None:
    key = f"column.mask.with.{count}.chars"
    found = import_debezium(written(tmp_path, KEPT | {key: "a.t.c"}), offsets=None, prefix="")
    assert yaml.safe_load(found.mapping)["tables"]["a.t"]["column_actions"] == {"c": action}
    (one,) = found.of(Outcome.LOST)
    assert one.key == key
    assert one.text.startswith(lost)


def test_the_report_says_what_no_reader_learns_without_statements(tmp_path: Path) -> None:
    found = import_debezium(written(tmp_path, KEPT), offsets=None, prefix="")
    (text,) = (one.text for one in found.of(Outcome.BY_HAND) if one.key == "ddl.exclude")
    assert "the sink follows no DROP, RENAME or ALTER" in text


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        ({"decimal.handling.mode": "String"}, "decimal", "string"),
        ({"decimal.handling.mode": "double"}, "decimal", "double"),
        ({"time.precision.mode": "connect"}, "time", "connect"),
        ({"time.precision.mode": "isostring"}, "time", "isostring"),
        ({"bigint.unsigned.handling.mode": "precise"}, "bigint_unsigned", "precise"),
        ({"binary.handling.mode": "base64-url-safe"}, "binary", "base64-url-safe"),
        ({"value.converter.decimal.format": "NUMERIC"}, "decimal_format", "numeric"),
        ({"value.converter.schemas.enable": ""}, "value_schemas", True),
        ({"key.converter.schemas.enable": "true"}, "key_schemas", True),
        ({"tombstones.on.delete": "false"}, "tombstones", False),
        ({"enable.time.adjuster": "false"}, "adjust_years", False),
        (
            {
                "transforms": "u",
                "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState",
            },
            "unwrap",
            True,
        ),
    ],
)
def test_each_mode_is_taken_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, str],
    name: str,
    value: object,
) -> None:
    monkeypatch.chdir(tmp_path)
    found, destination = loaded(monkeypatch, KEPT | config)
    assert getattr(destination.connect, name) == value
    assert found.of(Outcome.LOST) == []


ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
LOGICAL = "io.debezium.transforms.ByLogicalTableRouter"


@pytest.mark.parametrize(
    ("config", "topic"),
    [
        ({"topic.delimiter": "-"}, "inv_shop-shop-orders_1"),
        (
            {
                "transforms": "r, s",
                "transforms.r.type": ROUTER,
                "transforms.r.regex": r"([^.]+)\.([^.]+)\.(?<t>[^.]+)_\d",
                "transforms.r.replacement": "$2-${t}",
                "transforms.s.type": ROUTER,
                "transforms.s.regex": "shop-(.*)",
                "transforms.s.replacement": "all.$1",
            },
            "all.orders",
        ),
        (
            {
                "transforms": "l",
                "transforms.l.type": LOGICAL,
                "transforms.l.topic.regex": r"(.*)orders_(.*)",
                "transforms.l.topic.replacement": "$1orders",
                "transforms.l.key.enforce.uniqueness": "false",
            },
            "inv_shop.shop.orders",
        ),
        (
            {
                "topic.naming.strategy": "io.debezium.schema.DefaultRegexTopicNamingStrategy",
                "topic.regex": "(.*)_1",
                "topic.replacement": "$1",
            },
            "inv_shop.shop.orders",
        ),
    ],
)
def test_topics_have_the_names_that_transforms_and_strategies_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, str], topic: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found, destination = loaded(monkeypatch, KEPT | config)
    assert topic_of(destination, ("shop", "orders_1")) == topic
    assert found.of(Outcome.LOST) == []


@pytest.mark.parametrize(
    ("config", "lost"),
    [
        ({"include.schema.changes": ""}, "include.schema.changes"),
        ({"key.converter": ""}, "key.converter"),
        ({"value.converter": "io.confluent.connect.avro.AvroConverter"}, "value.converter"),
        ({"value.converter": "io.confluent.connect.protobuf.ProtobufConverter"}, "value.converter"),
        ({"key.converter": "org.apache.kafka.connect.storage.StringConverter"}, "key.converter"),
        ({"key.converter.decimal.format": "numeric"}, "key.converter.decimal.format"),
        ({"time.precision.mode": "adaptive"}, "time.precision.mode"),
        ({"provide.transaction.metadata": "true"}, "provide.transaction.metadata"),
        ({"heartbeat.interval.ms": "10000"}, "heartbeat.interval.ms"),
        ({"topic.naming.strategy": "x.SchemaUnicodeTopicNamingStrategy"}, "topic.naming.strategy"),
        ({"skip.messages.without.change": "true"}, "skip.messages.without.change"),
        ({"skipped.operations": "t,d"}, "skipped.operations"),
        (
            {
                "skipped.operations": "none",
                "transforms": "u",
                "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState",
            },
            "skipped.operations",
        ),
        ({"field.name.adjustment.mode": "avro"}, "field.name.adjustment.mode"),
        ({"converters": "b", "b.type": "x.TinyIntOneToBooleanConverter"}, "converters"),
        ({"message.key.columns": "(.*).t:a"}, "message.key.columns"),
        ({"column.mask.with.3.chars": "a.t.c"}, "column.mask.with.3.chars"),
        ({"column.mask.hash.v2.SHA-256.with.salt.s": "a.t.c"}, "column.mask.hash.v2.SHA-256.with.salt.…"),
        ({"column.exclude.list": ".*c"}, "column.exclude.list"),
        ({"table.include.list": "(a"}, "table.include.list"),
        (
            {"transforms": "f", "transforms.f.type": "io.debezium.transforms.Filter"},
            "transforms.f.type",
        ),
        (
            {"transforms": "r", "transforms.r.type": ROUTER, "transforms.r.regex": "(?U)x++("},
            "transforms.r.regex",
        ),
        (
            {"transforms": "r", "transforms.r.type": ROUTER, "transforms.r.predicate": "p"},
            "transforms.r.predicate",
        ),
        (
            {"transforms": "l", "transforms.l.type": LOGICAL, "transforms.l.topic.regex": "x"},
            "transforms.l.key.enforce.uniqueness",
        ),
        (
            {
                "transforms": "u",
                "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState",
                "transforms.u.add.fields": "op",
            },
            "transforms.u.add.fields",
        ),
        (
            {
                "transforms": "u",
                "transforms.u.type": "io.debezium.transforms.ExtractNewRecordState",
                "transforms.u.delete.tombstone.handling.mode": "rewrite",
            },
            "transforms.u.delete.tombstone.handling.mode",
        ),
    ],
)  # fmt: skip
def test_what_readers_would_see_otherwise_is_refused_by_its_key(
    tmp_path: Path, config: dict[str, str], lost: str
) -> None:
    found = import_debezium(written(tmp_path, KEPT | config), offsets=None, prefix="aq")
    assert [one.key for one in found.of(Outcome.LOST)] == [lost]


def test_the_workers_converters_apply_where_the_connector_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    properties = tmp_path / "connect-distributed.properties"
    properties.write_text(
        f"key.converter={JSON}\nkey.converter.schemas.enable=false\nvalue.converter={JSON}\nx=y\n"
    )
    own = {key: text for key, text in KEPT.items() if "converter" not in key}
    found = import_debezium(written(tmp_path, own), offsets=None, prefix="aq", worker=properties)
    assert found.of(Outcome.LOST) == []
    assert "key_schemas: false" in found.settings
    assert "value_schemas: true" in found.settings


@pytest.mark.parametrize(
    ("config", "published"),
    [
        ({"topic.prefix": "p"}, "omit"),
        ({"topic.prefix": "p", "skipped.operations": "u, t"}, "omit"),
        ({"topic.prefix": "p", "skipped.operations": "none"}, "record"),
        ({"topic.prefix": "p", "skipped.operations": "d"}, "record"),
        ({"database.server.name": "of-debezium-1"}, "record"),
        ({"database.server.name": "of-debezium-1", "skipped.operations": "t"}, "omit"),
    ],
)
def test_a_truncate_is_published_where_the_connector_published_it(
    config: dict[str, str], published: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, destination = loaded(monkeypatch, config)
    assert destination.truncates == published
