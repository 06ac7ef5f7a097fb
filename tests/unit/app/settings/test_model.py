"""Settings: read once and checked whole; all faults are reported at once, secrets never."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.settings.file import refuse_unwritable
from app.settings.model import Settings, load
from connectors.errors import SettingsError

SECRET = "hunter2-nobody-may-see"
GOOD = """
prefix: aq
worker: {id: worker-1}
kafka: {bootstrap_servers: "127.0.0.1:9092"}
destinations:
  shop:
    source: {host: db, port: 3306, user: u, password: hunter2-nobody-may-see}
    server_id: 5701
"""
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Make a text the settings' file."""

    def written(text: str) -> Path:
        path = tmp_path / "aqueduct.yaml"
        path.write_text(text)
        monkeypatch.setenv("AQUEDUCT_CONFIG", str(path))
        return path

    return written


def message() -> str:
    with pytest.raises(SettingsError) as caught:
        load()
    return str(caught.value)


def test_a_good_file_is_read_and_what_it_leaves_out_has_defaults(write: Write) -> None:
    write(GOOD)
    settings = load()
    assert settings.destinations["shop"].listed[0].secret() == SECRET
    assert settings.publish.interval_ms == 200
    assert settings.destinations["shop"].start is None


def test_all_faults_are_reported_in_one_message(write: Write) -> None:
    write(
        GOOD.replace("server_id: 5701", "server_id: 0").replace("3306", "99999") + "colour: red\n"
    )
    result = message()
    assert "3 fault(s)" in result
    for position in ("destinations.shop.server_id:", "destinations.shop.source.port:", "colour:"):
        assert f"\n  - {position}" in result


@pytest.mark.parametrize(
    ("given", "wanted", "fault"),
    [
        ("prefix:", "prefxi:", "prefxi: no such setting; the nearest is prefix\n"),
        (
            "password:",
            "Pasword:",
            "destinations.shop.source.Pasword: no such setting; the nearest is password",
        ),
        (
            "server_id:",
            "fliter: {}\n    server_id:",
            "shop.fliter: no such setting; the nearest is filter",
        ),
        (
            "server_id:",
            "snapshot: {mod: x}\n    server_id:",
            "snapshot.mod: no such setting; the nearest is mode",
        ),
        ("worker: {id", "worker: {xyz", "worker.xyz: no such setting; there are "),
        (
            "worker: {id",
            "oversize: stop\nworker: {id",
            "oversize: no such setting here; there is destinations.<name>.oversize",
        ),
    ],
)
def test_an_unknown_setting_is_named_with_the_nearest_that_is_there(
    write: Write, given: str, wanted: str, fault: str
) -> None:
    write(GOOD.replace(given, wanted))
    assert fault in message()


def test_the_environment_overrides_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(GOOD)
    monkeypatch.setenv("AQUEDUCT_PREFIX", "other")
    monkeypatch.setenv("AQUEDUCT_DESTINATIONS__SHOP__SOURCE__PASSWORD", "from-outside")
    settings = load()
    assert settings.prefix == "other"
    assert settings.destinations["shop"].listed[0].secret() == "from-outside"
    assert settings.destinations["shop"].listed[0].host == "db"


def test_a_variable_that_is_no_setting_is_refused(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD)
    monkeypatch.setenv("AQUEDUCT_PREFFIX", "other")
    assert "AQUEDUCT_PREFFIX" in message()


def test_a_misspelt_setting_within_a_part_is_refused_from_the_environment_too(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD)
    monkeypatch.setenv("AQUEDUCT_PUBLISH__INTERVALL_MS", "5")
    assert "publish.intervall_ms:" in message()


def test_variables_of_the_other_programs_are_none_of_ours(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD)
    monkeypatch.setenv("AQUEDUCT_SINK_WAREHOUSE", "/tmp/w")
    monkeypatch.setenv("AQUEDUCT_SPARK_JARS", "/tmp/j")
    assert load().prefix == "aq"


SECOND = """
  again:
    source: {host: db, port: %d, user: u}
    server_id: 5701
"""


def test_two_destinations_at_one_source_need_a_server_id_each(write: Write) -> None:
    write(GOOD + SECOND.lstrip("\n") % 3306)
    result = message()
    assert "shop and again have the same server_id 5701 at db:3306" in result


def test_destinations_at_different_sources_may_share_a_server_id(write: Write) -> None:
    write(GOOD + SECOND.lstrip("\n") % 3307)
    assert len(load().destinations) == 2


def shown(settings: Settings) -> str:
    return f"{settings!r} {settings} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    ("address", "setting"),
    [
        (f'kafka: {{bootstrap_servers: "u:{SECRET}@127.0.0.1:9092"}}', "kafka.bootstrap_servers"),
        (f'zookeeper: {{hosts: "u:{SECRET}@127.0.0.1:2181"}}', "zookeeper.hosts"),
    ],
)
def test_an_address_with_an_account_is_refused_since_errors_print_addresses(
    write: Write, address: str, setting: str
) -> None:
    line = 'kafka: {bootstrap_servers: "127.0.0.1:9092"}'
    write(GOOD.replace(line, address) if "kafka" in setting else GOOD + address)
    said = message()
    assert f"{setting}: an address is without user and password" in said
    assert SECRET not in said


def test_a_secret_is_in_no_text_of_the_settings(write: Write) -> None:
    write(GOOD)
    assert SECRET not in shown(load())


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("server_id: 5701", "server_id: none"),
        ("user: u, password: hunter2-nobody-may-see", "user: hunter2-nobody-may-see, pass: 1"),
        ("password: hunter2", "password: *hunter2"),
        ("password: hunter2", "password: !hunter2"),
        ("password: hunter2-nobody-may-see", "password: [hunter2-nobody-may-see]"),
        ("port: 3306", "port: hunter2-nobody-may-see"),
        ("server_id: 5701", "server_id: 5701\n    start: hunter2-nobody-may-see"),
    ],
)
def test_a_refused_value_is_never_shown_since_it_may_be_a_secret(
    write: Write, good: str, bad: str
) -> None:
    write(GOOD.replace(good, bad))
    assert "hunter2" not in message()


def test_a_value_of_the_environment_that_cannot_be_read_is_not_shown(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(GOOD)
    monkeypatch.setenv("AQUEDUCT_KAFKA", SECRET)
    result = message()
    assert "kafka" in result
    assert SECRET not in result


def test_a_file_that_is_no_yaml_is_refused_with_the_place(write: Write) -> None:
    path = write(GOOD.replace("password: hunter2", "password: *hunter2"))
    assert f"{path} is not YAML at line 7, column 55" in message()


@pytest.mark.parametrize("text", ["[1, 2]", "only words"])
def test_a_file_without_names_of_settings_is_refused(write: Write, text: str) -> None:
    write(text)
    assert "holds no settings" in message()


def test_a_file_of_other_bytes_than_text_is_refused(write: Write) -> None:
    write("").write_bytes(b"prefix: \xff")
    assert "cannot be read" in message()


def test_a_file_that_is_named_and_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(tmp_path / "none.yaml"))
    assert "none.yaml, which is not a file" in message()


def test_a_filter_that_is_no_regular_expression_is_named(write: Write) -> None:
    write(GOOD + "    filter: {include: 'shop\\.(.*'}\n")
    result = message()
    assert "destinations.shop.filter: 'shop\\\\.(.*' is not a regular expression" in result


def test_a_password_comes_from_a_file_without_its_last_line_end(
    write: Write, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    write(GOOD.replace("password: hunter2-nobody-may-see", f"password_file: {secret}"))
    settings = load()
    assert settings.destinations["shop"].listed[0].secret() == SECRET
    assert SECRET not in shown(settings)


def test_a_password_file_that_is_missing_and_a_second_password_are_faults(
    write: Write, tmp_path: Path
) -> None:
    write(GOOD.replace("password: hunter2-nobody-may-see", "password_file: /nowhere/secret"))
    assert "password_file /nowhere/secret is not a file" in message()
    (tmp_path / "secret").write_text("x")
    write(GOOD.replace("user: u", f"user: u, password_file: {tmp_path / 'secret'}"))
    assert "give password or password_file, not both" in message()


@pytest.mark.parametrize(
    "start",
    [
        "yesterday",
        "{file: ''}",
        "{file: b.000001, pos: 3}",
        "{gtid_set: nonsense}",
        "{}",
        "{pos: 4}",
        "{file: b.000001, pos: 4, timestamp: 1763719200000}",
        "{gtid_set: '0-1-2', file: b.000001}",
        "{timestamp: 1763719200}",
        "{timestamp: 2026-11-21 10:00:00}",
        "{timestamp: '2026-11-21T10:00:00'}",
        "{timestamp: yesterday}",
    ],
)
def test_a_start_that_is_no_place_is_refused(write: Write, start: str) -> None:
    write(GOOD + f"    start: {start}\n")
    assert "destinations.shop.start" in message()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("UTF-8", "utf8mb4"), ("utf8", "utf8mb4"), ("UTF8", "utf8mb4"), ("utf8mb4", "utf8mb4"),
        ("utf8mb3", "utf8mb3"), ("latin1", "latin1"), ("ISO-8859-1", "latin1"), ("ISO8859_1", "latin1"),
        ("windows-1252", "latin1"), ("GBK", "gbk"), ("Big5", "big5"), ("US-ASCII", "ascii"),
        ("EUC-JP", "ujis"), ("Shift_JIS", "sjis"), ("KOI8-R", "koi8r"), ("utf-7", None), ("UTF-16", None),
        ("binary", None), ("dec8", None), ("", None),
    ],
)  # fmt: skip
def test_a_connections_character_set_is_known_by_its_usual_names(
    write: Write, given: str, meant: str | None
) -> None:
    write(GOOD + f"    connection_charset: '{given}'\n")
    if meant is None:
        assert "no character set of MySQL connections" in message()
    else:
        assert load().destinations["shop"].connection_charset == meant


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            GOOD + "\tx: 1\n",
            "at line 9, column 1: found character '\\t' that cannot start any token",
        ),
        (GOOD + "a: b: c\n", "at line 9, column 5: mapping values are not allowed here"),
        (GOOD + "a: *hunter2-nobody-may-see\n", "found undefined alias '…'"),
        (GOOD + "prefix: other\n", "at line 2, column 1: the same name is given twice"),
        (GOOD + "1: 2\n", "holds no settings"),
        (GOOD + "a: 2026-99-99\n", "is not YAML: month must be in 1..12"),
    ],
)
def test_the_parsers_words_and_line_are_shown_without_what_they_quote(
    write: Write, text: str, says: str
) -> None:
    write(text)
    assert says in message()
    assert SECRET not in message()


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("{pos: 7}", "destinations.shop.start: pos needs its file"),
        (
            "{file: b.1, pos: 1}",
            "destinations.shop.start.pos: Input should be greater than or equal to 4",
        ),
        ("noon", "destinations.shop.start: Input should be 'earliest' or 'latest'"),
    ],
)
def test_a_wrong_start_is_one_fault_in_the_files_own_words(
    write: Write, start: str, says: str
) -> None:
    write(GOOD + f"    start: {start}\n")
    assert [line[4:] for line in message().splitlines() if line.startswith("  - ")] == [says]


def test_a_value_of_several_forms_is_one_fault(write: Write) -> None:
    write(GOOD + "provide_transaction_metadata: some\n")
    assert "1 fault(s)" in message()
    assert "\n  - provide_transaction_metadata: Input should be" in message()


def test_without_a_file_that_is_what_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there is no file aqueduct.yaml here, and the environment alone is not" in message()
    assert "name the file by AQUEDUCT_CONFIG" in message()


@pytest.mark.parametrize("below", ["", "/data"])
def test_a_data_dir_that_is_no_folder_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"data_dir: .*file.* cannot be written to"):
        refuse_unwritable(Path(f"{tmp_path}/file{below}"))


def test_a_data_dir_is_made(tmp_path: Path) -> None:
    refuse_unwritable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_recovery_needs_a_history_to_recover(write: Write) -> None:
    recovers = GOOD + "    snapshot: {mode: recovery}\n"
    write(recovers)
    assert load().destinations["shop"].snapshot.recovers
    write(recovers + "schema_history: {store: 'off'}\n")
    assert "destinations.shop: snapshot.mode is recovery" in message()
    write(GOOD + "schema_history: {store: 'off'}\n")
    load()
