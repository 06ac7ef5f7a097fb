"""Folders of Canal against the files and the report that come of them, which are golden files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from app.migrate.canal.configuration import Surroundings
from app.migrate.canal.importing import import_canal
from app.migrate.draft import Imported, Outcome
from app.settings.model import CONFIG_VARIABLE, RowTopicSettings, load
from connectors.errors import SettingsError, UsageError
from tables.rules.routes.routes import Routes
from tests.unit.app.migrate.golden import assert_golden, create_password_files

CASES = Path(__file__).parent / "cases"
NAMES = sorted(case.name for case in CASES.iterdir())


def imported(case: str, **surroundings: dict[str, str]) -> Imported:
    return import_canal(CASES / case / "conf", Surroundings(**surroundings), prefix="aq")  # type: ignore[arg-type]


@pytest.mark.parametrize("case", NAMES)
def test_a_folder_gives_the_files_that_are_recorded(case: str) -> None:
    assert_golden(CASES / case, imported(case))


@pytest.mark.remedy("SettingsError")
@pytest.mark.parametrize("case", NAMES)
def test_the_worker_accepts_the_settings_once_the_passwords_are_written(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "aqueduct.yaml"
    found = imported(case)
    settings.write_text(found.settings)
    (tmp_path / "mapping.yaml").write_text(found.mapping)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONFIG_VARIABLE, str(settings))
    with pytest.raises(SettingsError, match="password_file"):
        load()
    create_password_files(settings)
    loaded = load()
    assert loaded.destinations
    assert (loaded.mapping.mapping is not None) == bool(found.mapping)


@pytest.mark.parametrize("case", NAMES)
def test_no_password_is_in_the_files_or_the_report(case: str) -> None:
    found = imported(case)
    text = "\n".join([found.settings, found.mapping, *found.lines(), str(found.to_json())])
    assert "secret-" not in text
    assert "very-secret" not in text


@pytest.mark.parametrize("case", NAMES)
def test_every_key_of_every_file_is_in_the_report(case: str) -> None:
    reported = {(one.key, one.file) for one in imported(case).findings}
    for file in (CASES / case / "conf").rglob("*.properties"):
        name = str(file.relative_to(CASES / case / "conf"))
        lines = file.read_text().replace("\\\n", "").splitlines()
        keys = {line.partition("=")[0].strip() for line in lines if "=" in line and line[0] != "#"}
        if not name.startswith("unused"):
            assert {key for key in keys if (key, name) not in reported} == set()


def test_only_a_key_that_canal_does_not_have_is_unknown() -> None:
    unknown = [one.key for case in NAMES for one in imported(case).of(Outcome.UNKNOWN)]
    assert unknown == ["canal.my.own.extension"]


def test_system_properties_precede_the_environment_which_precedes_the_files() -> None:
    environment = {"canal.id": "8", "canal.ip": "10.1.1.1", "fallback": "50"}
    found = imported("standby", system_properties={"canal.ip": "10.2.2.2"}, environment=environment)
    assert "advertised_address: '10.2.2.2:8083'  # canal.ip (system property)" in found.settings
    assert "fallback_seconds: 50" in found.settings


@pytest.mark.parametrize(
    ("line", "is_flat"),
    [
        ("canal.mq.flatMessage = true", True),
        ("canal.mq.flatMessage =", True),
        ("", True),
        ("canal.mq.flatMessage = false", False),
        ("canal.mq.flatMessage = yes", False),
    ],
)
def test_messages_are_flat_as_canal_has_it_where_the_key_is_missing_or_empty(
    tmp_path: Path, line: str, *, is_flat: bool
) -> None:
    shutil.copytree(CASES / "kafka" / "conf", tmp_path / "conf")
    properties = tmp_path / "conf" / "canal.properties"
    whole = properties.read_text()
    assert "canal.mq.flatMessage = true" in whole
    properties.write_text(whole.replace("canal.mq.flatMessage = true", line))
    found = import_canal(tmp_path / "conf", Surroundings(), prefix="aq")
    assert ("format: canal" in found.settings) == is_flat
    lost = [one.key for one in found.of(Outcome.LOST)]
    assert ("canal.mq.flatMessage" in lost) == (not is_flat)
    is_default = line in ("", "canal.mq.flatMessage =")
    files = [one.file for one in found.findings if one.key == "canal.mq.flatMessage"]
    assert ("default of Canal: true" in files) == is_default


def conf(folder: Path, instance: str, server: str = "canal.serverMode = kafka") -> Path:
    (folder / "orders").mkdir(parents=True)
    (folder / "canal.properties").write_text(f"{server}\ncanal.destinations = orders\n")
    (folder / "orders" / "instance.properties").write_text(
        f"canal.instance.master.address=db:3306\ncanal.instance.filter.query.ddl=true\n{instance}\n"
    )
    return folder


def topics_of(found: Imported, *tables: str) -> dict[str, tuple[str, int]]:
    """Topic and partitions of tables, as the worker has them; 9 partitions where none are stated."""
    rules = yaml.safe_load(found.settings)["destinations"]["orders"]["row_topics"]
    made = tuple(RowTopicSettings.model_validate(one).rule() for one in rules)
    routes = Routes(prefix="aq", row_topics=made, partitions=9)
    named = {one: routes.of((one.partition(".")[0], one.partition(".")[2])) for one in tables}
    return {name: (one.topic, one.partitions) for name, one in named.items() if one is not None}


def test_topics_are_named_as_canal_names_them_by_table_then_by_database_then_all_others(
    tmp_path: Path,
) -> None:
    found = import_canal(
        conf(
            tmp_path,
            "canal.mq.topic=the.rest\n"
            r"canal.mq.dynamicTopic=Trade,money.x:crm.pay_1;crm.P2,all:big\\\\d+,mine\\\\.t_.*",
        ),
        Surroundings(),
        prefix="aq",
    )
    assert topics_of(
        found, "TRADE.Orders", "crm.pay_1", "Crm.p2", "big7.t", "mine.t_X", "mine.u", "crm.pay_12"
    ) == {
        "TRADE.Orders": ("trade", 1),
        "crm.pay_1": ("money_x", 1),
        "Crm.p2": ("crm_p2", 1),
        "big7.t": ("all", 1),
        "mine.t_X": ("mine_t_x", 1),
        "mine.u": ("the_rest", 1),
        "crm.pay_12": ("the_rest", 1),
    }
    assert found.of(Outcome.LOST) == []
    defaults = {one.key for one in found.findings if one.file.startswith("default of Canal")}
    assert defaults == {"canal.mq.flatMessage", "canal.mq.partition"}


def test_a_fixed_topic_is_that_of_all_tables_as_it_is(tmp_path: Path) -> None:
    found = import_canal(conf(tmp_path, "canal.mq.topic=a.b_c"), Surroundings(), prefix="aq")
    assert topics_of(found, "x.y") == {"x.y": ("a.b_c", 1)}


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (r"canal.mq.dynamicTopic=a.b,.*\\..*", "canal.mq.dynamicTopic"),
        ("canal.mq.dynamicTopic=a.(", "canal.mq.dynamicTopic"),
        ("canal.mq.topic=t\ncanal.mq.partition=2", "canal.mq.partition"),
        (
            "canal.mq.topic=t\ncanal.mq.partitionsNum=3\ncanal.mq.partitionHash=a.b:id",
            "canal.mq.partitionHash",
        ),
        ("canal.mq.topic=t\ncanal.mq.flatMessage=false", "canal.mq.flatMessage"),
        (
            "canal.mq.topic=t\ncanal.instance.filter.query.ddl=false",
            "canal.instance.filter.query.ddl",
        ),
        *[
            (f"canal.mq.topic=t\ncanal.instance.filter.{key}=true", f"canal.instance.filter.{key}")
            for key in ("dml.insert", "dml.update", "dml.delete", "rows")
        ],
    ],
)
def test_what_readers_of_canals_topics_would_see_otherwise_is_refused_by_its_key(
    tmp_path: Path, line: str, lost: str
) -> None:
    found = import_canal(conf(tmp_path, line), Surroundings(), prefix="aq")
    assert [one.key for one in found.of(Outcome.LOST)] == [lost]


@pytest.mark.parametrize(("stated", "truncates"), [("true", "omit"), ("false", None)])
def test_a_truncate_is_a_statement_that_canal_filters_with_all_others(
    tmp_path: Path, stated: str, truncates: str | None
) -> None:
    line = f"canal.mq.topic=t\ncanal.instance.filter.query.ddl={stated}"
    found = import_canal(conf(tmp_path, line), Surroundings(), prefix="aq")
    destination = yaml.safe_load(found.settings)["destinations"]["orders"]
    assert destination.get("truncates") == truncates


def test_the_report_says_what_no_reader_learns_without_statements(tmp_path: Path) -> None:
    server = "canal.serverMode = kafka\ncanal.instance.filter.query.ddl = true"
    found = import_canal(conf(tmp_path, "canal.mq.topic=t", server), Surroundings(), prefix="aq")
    (text,) = (one.text for one in found.of(Outcome.BY_HAND) if one.key == "ddl.exclude")
    assert "the sink follows no DROP, RENAME or ALTER" in text


def test_readers_of_canals_own_port_and_of_other_brokers_are_refused(tmp_path: Path) -> None:
    for number, mode in enumerate(("tcp", "rocketMQ")):
        folder = conf(tmp_path / str(number), "canal.mq.topic=t", f"canal.serverMode = {mode}")
        found = import_canal(folder, Surroundings(), prefix="aq")
        assert [one.key for one in found.of(Outcome.LOST)] == ["canal.serverMode"]


def test_a_cursor_of_zookeeper_is_given_as_a_file(tmp_path: Path) -> None:
    cursor = tmp_path / "stock.json"
    cursor.write_text(
        '{"@type":"com.alibaba.otter.canal.protocol.position.LogPosition","identity":{"slaveId":-1,'
        '"sourceAddress":{"address":"2001:db8::5","port":3310}},"postion":{"included":false,'
        '"journalName":"bin.000002","position":4,"serverId":1,"timestamp":1795234567000}}'
    )
    surroundings = Surroundings(cursor_files={"stock": cursor})
    found = import_canal(CASES / "standby", surroundings, prefix="aq").settings
    assert "file: bin.000002" in found.partition("stock:")[2]
    cursor.write_text("{}")
    with pytest.raises(UsageError, match="no cursor of Canal"):
        import_canal(CASES / "standby", surroundings, prefix="aq")


def test_a_folder_without_canal_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no canal\.properties"):
        import_canal(tmp_path, Surroundings(), prefix="aq")
