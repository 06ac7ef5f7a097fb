"""Settings: whole, or one message with every fault."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from spark_sink.errors import BadSettings
from spark_sink.settings.model import Settings, TableRule, read
from spark_sink.settings.required_conf import required
from spark_sink.spark import session

GOOD = "prefix: aq\nbootstrap_servers: 127.0.0.1:9092\nwarehouse: /tmp/w\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sink.yaml"
    path.write_text(GOOD)
    return path


def test_a_small_file_is_enough(file: Path) -> None:
    settings = read(file)
    assert settings.checkpoint == "/tmp/w/__checkpoint"
    assert settings.mode == "continuous"


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AQUEDUCT_SINK_PREFIX", "other")
    monkeypatch.setenv("AQUEDUCT_SINK_METRICS__PORT", "0")
    monkeypatch.setenv("AQUEDUCT_SINK_MODE", "continuous")
    settings = read(file, mode="available-now")
    assert (settings.prefix, settings.metrics.port) == ("other", 0)
    assert settings.mode == "available-now"


def test_a_destination_has_what_all_have_but_its_own(file: Path, tmp_path: Path) -> None:
    (tmp_path / "common").write_text("secret\n")
    file.write_text(
        f"{GOOD}load: {{user: aqueduct, password_file: {tmp_path}/common, connections: 9, destinations: "
        "{east: {server: 'e:1'}, west: {server: 'w:2', user: other, password: own}}}\n"
    )
    load = read(file).load
    assert load.is_set
    found = [load.of(one) for one in ("east", "west", "third")]
    assert [(one.server, one.user, one.secret) for one in found] == [
        ("e:1", "aqueduct", "secret"),
        ("w:2", "other", "own"),
        ("", "aqueduct", "secret"),
    ]


@pytest.mark.remedy("sink.BadSettings")
def test_all_faults_come_in_one_message(file: Path) -> None:
    file.write_text(
        "prefix: 'a b'\nwarehouse: /w\ncolour: red\ntrigger_interval: -1\nmaintenance: {retention_hour: 1}\n"
    )
    with pytest.raises(BadSettings) as fault:
        read(file)
    message = str(fault.value)
    for name in ("prefix", "bootstrap_servers", "colour", "trigger_interval", str(file)):
        assert name in message
    assert "colour: no such setting" in message
    assert "maintenance.retention_hour: no such setting; the nearest is retention_hours" in message
    assert "\n" not in message
    file.write_text(f"{GOOD}maintenance: {{retention_hours: 1}}\n")
    assert read(file).maintenance.retention_hours == 1


def test_the_nearest_setting_of_any_part_is_named(file: Path) -> None:
    for key, nearest in (
        ("histry", "history"),
        ("retention_hour", "retention_hours"),
        ("rows_per_rang", "rows_per_range"),
        ("database", "databases"),
        ("bindd", "bind"),
        ("levl", "level"),
    ):
        file.write_text(f"{GOOD}{key}: 1\n")
        with pytest.raises(BadSettings, match=f"{key}: no such setting; the nearest is {nearest}"):
            read(file)


def test_an_unknown_environment_variable_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AQUEDUCT_SINK_WAREHOSE", "/x")
    with pytest.raises(BadSettings, match="AQUEDUCT_SINK_WAREHOSE"):
        read(file)


@pytest.mark.parametrize("text", ["- a\n", "prefix: [\n", "include: '('\n" + GOOD])
def test_a_broken_file_is_one_clear_line(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(BadSettings, match=r"sink\.yaml"):
        read(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"none\.yaml"):
        read(tmp_path / "none.yaml")


@pytest.mark.parametrize("key", ["failOnDataLoss", "startingOffsets", "kafka.isolation.level"])
def test_what_exactness_depends_on_cannot_be_set(file: Path, key: str) -> None:
    file.write_text(f"{GOOD}kafka_options: {{{key}: x}}\n")
    with pytest.raises(BadSettings, match="exactness"):
        read(file)


def test_a_uri_stays_and_a_relative_path_becomes_absolute(file: Path) -> None:
    assert read(file, warehouse="s3a://b/w/").checkpoint == "s3a://b/w/__checkpoint"
    assert read(file, warehouse="w").warehouse == str(Path.cwd() / "w")


@pytest.mark.parametrize(
    "key", ["spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.variable.substitute"]
)
def test_what_the_sink_asks_of_spark_is_not_ignored_silently(file: Path, key: str) -> None:
    file.write_text(f"{GOOD}spark_options: {{{key}: x, ansi: y, spark.ok: z}}\n")
    with pytest.raises(BadSettings, match=f"ansi: a setting.*{key} cannot be set"):
        read(file)


@pytest.mark.parametrize("limit", [-1, 10_001, "some"])
def test_the_limit_of_dead_letters_is_none_or_a_number_that_a_driver_can_hold(
    file: Path, limit: object
) -> None:
    assert read(file).unusable_limit == 0
    file.write_text(f"{GOOD}unusable_limit: {limit}\n")
    with pytest.raises(BadSettings, match="unusable_limit"):
        read(file)


def test_jars_are_added_to_the_sinks_own_and_never_put_in_their_place(file: Path) -> None:
    file.write_text(f"{GOOD}spark_options: {{spark.jars: /a.jar}}\n")
    with pytest.raises(BadSettings, match="folder of the setting jars"):
        read(file)
    file.write_text(f"{GOOD}spark_options: {{spark.jars.packages: 'org:a:1'}}\n")
    assert read(file).spark_options == {"spark.jars.packages": "org:a:1"}


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("format: hudi", "format: .*delta.* or .*iceberg"),
        ("catalog: {type: rest}", "catalog: .*only with format: iceberg"),
        ("format: iceberg\ncatalog: {uri: x}", "type or catalog-impl is missing"),
        (
            "format: iceberg\ncatalog: {type: rest, cache-enabled: 'true'}",
            "exactness depends on it",
        ),
        ("format: iceberg\ncatalog: {type: hadoop, warehouse: x}", "the setting warehouse"),
        ("format: iceberg\nname: rest", "name is for several sinks"),
        ("format: iceberg\nmetastore: {uri: 'thrift://m:9083'}", "set catalog"),
        ("format: iceberg\ncatalog: {type: jdbc, uri: x}", "stores its name with each table"),
        ("format: iceberg\ncatalog: {type: jdbc, name: a.b}", "name is not of the form"),
    ],
)
def test_a_catalog_that_cannot_be_used_is_named(file: Path, lines: str, fault: str) -> None:
    file.write_text(f"{GOOD}{lines}\n")
    with pytest.raises(BadSettings, match=fault):
        read(file)


def test_several_sinks_need_a_catalog_that_commits_for_all_of_them(file: Path) -> None:
    for more in ("", "catalog: {type: hadoop}\n"):
        file.write_text(f"{GOOD}name: rest\nformat: iceberg\n{more}")
        with pytest.raises(BadSettings, match="except on HDFS: set catalog"):
            read(file)
        assert read(file, warehouse="hdfs://name/w").name == "rest"
    for catalog in ("{type: rest, uri: 'x:1'}", "{catalog-impl: org.example.Mine}"):
        file.write_text(f"{GOOD}name: rest\nformat: iceberg\ncatalog: {catalog}\n")
        assert read(file).name == "rest"


def test_a_credential_of_the_catalog_may_come_from_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(f"{GOOD}format: iceberg\ncatalog: {{type: rest, uri: 'x:1'}}\n")
    monkeypatch.setenv("AQUEDUCT_SINK_CATALOG__CREDENTIAL", "id:secret")
    assert read(file).catalog == {"type": "rest", "uri": "x:1", "credential": "id:secret"}


def test_deltas_extension_is_required_in_a_warehouse_of_delta_only(file: Path) -> None:
    extension = "spark_options: {spark.sql.extensions: org.example.Mine}\n"
    file.write_text(f"{GOOD}{extension}")
    with pytest.raises(BadSettings, match=r"spark\.sql\.extensions cannot be set"):
        read(file)
    file.write_text(f"{GOOD}format: iceberg\n{extension}")
    assert read(file).spark_options == {"spark.sql.extensions": "org.example.Mine"}
    assert required("iceberg").items() <= required("delta").items()


def test_a_bucket_is_found_in_the_properties_of_a_catalog_too(file: Path) -> None:
    file.write_text(f"{GOOD}format: iceberg\ncatalog: {{type: hive, warehouse: 's3a://lake/x'}}\n")
    assert read(file).uses_buckets
    file.write_text(f"{GOOD}format: iceberg\ncatalog: {{type: hive, warehouse: '/lake/x'}}\n")
    assert not read(file).uses_buckets


def test_the_jar_of_iceberg_is_asked_for_only_with_its_format(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    file.write_text(f"{GOOD}jars: {tmp_path}\niceberg_jars: {tmp_path}/none\n")
    assert session._own_jvm(read(file), None)["spark.jars"] == f"{tmp_path}/a.jar"
    with pytest.raises(BadSettings, match=r"iceberg_jars: no jar in .*/none"):
        session._own_jvm(read(file, format="iceberg"), None)


def test_a_batch_is_as_large_as_the_memory_allows(file: Path) -> None:
    file.write_text(f"{GOOD}driver_memory: 4g\n")
    large = read(file).batch_limit
    file.write_text(f"{GOOD}driver_memory: 1024m\n")
    assert large == 4 * read(file).batch_limit

    file.write_text(f"{GOOD}driver_memory: 4g\nmax_offsets_per_trigger: 7\n")
    assert read(file).batch_limit == 7


def test_a_named_sink_has_a_checkpoint_of_its_own(file: Path) -> None:
    file.write_text(f"{GOOD}name: rest\n")
    assert read(file).checkpoint == "/tmp/w/__checkpoint-rest"
    file.write_text(f"{GOOD}name: rest\ncheckpoint: /tmp/c\n")
    assert read(file).checkpoint == "/tmp/c"
    for name in ("Rest", "a.b", "../x", "a" * 41):
        file.write_text(f"{GOOD}name: {name}\n")
        with pytest.raises(BadSettings, match="name"):
            read(file)


def test_spark_s_user_interface_is_only_for_a_local_master(file: Path) -> None:
    file.write_text(f"{GOOD}ui_port: 4040\n")
    assert read(file).ui_port == 4040
    file.write_text(f"{GOOD}ui_port: 4040\nmaster: spark://host:7077\n")
    with pytest.raises(BadSettings, match="ui_port needs a local master"):
        read(file)


def test_layouts_are_refused_in_iceberg() -> None:
    def given(rule: TableRule) -> Settings:
        return Settings(
            prefix="aq",
            bootstrap_servers="x:1",
            warehouse="/w",
            format="iceberg",
            tables=(rule,),
        )

    given(TableRule(match=".*", deletes="hard"))
    for rule in (
        TableRule(match=".*", cluster_by=("day",)),
        TableRule(match=".*", deletion_vectors=False),
    ):
        with pytest.raises(ValidationError, match="need format: delta"):
            given(rule)
