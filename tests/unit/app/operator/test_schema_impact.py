"""Statements judged before they are run: by a history, a server, or a file."""

from __future__ import annotations

import argparse
import base64
import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.operator import impact
from app.operator.schema import DestinationHistory
from app.settings.model import Settings
from connectors.errors import AqueductError, DdlUnresolved, UsageError
from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session
from connectors.mysql.ddl.show_create import create_table
from tables.history.history import SchemaHistory
from tables.state.cursor import Cursor
from tests.unit.tables.made import applied, begun, offset

SETTINGS = """\
prefix: aq
kafka: {bootstrap_servers: "b:9092"}
destinations:
  shop:
    source: {host: db, user: aqueduct}
    server_id: 7
    filter: {include: 'shop\\..*', black: 'shop\\.hidden'}
"""
DUMP = """\
-- a dump
/*!40101 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `orders`;
CREATE TABLE `orders` (
  `id` int NOT NULL AUTO_INCREMENT COMMENT 'a;b',
  `note` varchar(80) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4;
DELIMITER ;;
/*!50003 CREATE*/ /*!50003 TRIGGER `t` BEFORE INSERT ON `orders` FOR EACH ROW BEGIN SET @a = 1; END */;;
DELIMITER ;
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "aqueduct.yaml"
    path.write_text(SETTINGS)
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(path))
    return path


def history() -> SchemaHistory:
    made = begun("orders", "hidden")
    applied(made, 200, "ALTER TABLE orders ADD note varchar(80), ADD PRIMARY KEY (id)")
    return made


async def describe(_destination: str) -> DestinationHistory:
    cursor = Cursor(
        destination="shop", installation="i", offset=offset(1000), seq=0, epoch=1, versions=0
    )
    return DestinationHistory(history=history(), cursor=cursor)


async def ask(_settings: Settings, _destination: str) -> Catalog:
    catalog = Catalog(Server(version=(8, 0, 36)), logged=False)
    catalog.apply("CREATE DATABASE shop", Session())
    catalog.apply("CREATE TABLE orders (id int PRIMARY KEY, live int)", Session(database="shop"))
    return catalog


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    impact.configure_impact(parser)
    return parser.parse_args(["shop", *arguments])


def run(*arguments: str) -> int:
    return impact.run_impact(options("--database", "shop", *arguments), describe, ask)


def described(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("statement", "more", "code"),
    [
        ("ALTER TABLE orders ADD x int", [], 0),
        ("ALTER TABLE orders MODIFY note varchar(200)", [], 0),
        ("ALTER TABLE orders MODIFY note varchar(200)", ["--fail-on", "careful"], 3),
        ("ALTER TABLE orders ADD x int", ["--fail-on", "careful"], 0),
        ("ALTER TABLE orders DROP note", [], 3),
        ("ALTER TABLE orders DROP note", ["--fail-on", "never"], 0),
        ("ALTER TABLE hidden DROP id, ADD x int", [], 0),
        ("CREATE VIEW v AS SELECT 1", [], 0),
        ("DROP TABLE shop.orders", [], 3),
        ("TRUNCATE orders", [], 0),
        ("TRUNCATE orders", ["--fail-on", "careful"], 3),
    ],
)
def test_the_exit_code_says_whether_it_may_be_run(
    statement: str, more: list[str], code: int
) -> None:
    assert run(statement, *more) == code


def test_a_mapped_table_is_judged_as_it_is_published(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mapping, keys = settings.with_name("mapping.yaml"), settings.with_name("keys")
    mapping.write_text("tables: {shop.orders: {column_actions: {note: redact}}}")
    keys.write_text(f"k1: {base64.b64encode(bytes(32)).decode()}\n")
    settings.write_text(f"{SETTINGS}mapping: {{file: '{mapping}', key_file: '{keys}'}}\n")
    assert run("ALTER TABLE orders MODIFY note varchar(200)", "--fail-on", "careful") == 0
    capsys.readouterr()
    assert run("ALTER TABLE orders CHANGE note remark varchar(80)") == 3
    shown = capsys.readouterr().out
    assert (
        "rule impossible: shop.orders: there is no column 'note', which its action redact" in shown
    )


def test_an_answer_names_topic_and_warehouse(capsys: pytest.CaptureFixture[str]) -> None:
    run("ALTER TABLE orders DROP note, ADD x int")
    text = capsys.readouterr().out
    assert text.splitlines()[0] == "breaking: 1 breaking, 1 harmless"
    assert "topic aq.shop.orders: Records have no such field any more." in text
    assert "warehouse shop/orders (note): The column stays" in text


def test_an_answer_for_programs_has_every_statement(capsys: pytest.CaptureFixture[str]) -> None:
    run("ALTER TABLE orders ADD x int; ALTER TABLE orders DROP x; USE other;", "--format", "json")
    found = described(capsys)
    assert found["severity"] == "breaking"
    assert [s["severity"] for s in found["statements"]] == ["harmless", "breaking"]
    assert [s["type"] for s in found["statements"]] == ["ALTER TABLE", "ALTER TABLE"]
    assert found["statements"][1]["effects"][0]["topic"] == "aq.shop.orders"


def test_a_statement_says_what_it_renames(capsys: pytest.CaptureFixture[str]) -> None:
    run("ALTER TABLE orders CHANGE note remark varchar(200)", "--format", "json")
    effects = described(capsys)["statements"][0]["effects"]
    assert [effect["kind"] for effect in effects] == ["column renamed", "column widened"]


def test_statements_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("ALTER TABLE orders ADD x int;\nTRUNCATE orders;"))
    assert run("-") == 0
    headlines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("--")]
    assert headlines == ["-- ALTER TABLE orders ADD x int", "-- TRUNCATE orders"]


def test_a_comment_before_a_command_of_the_client_changes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = (
        "USE other;\n-- the shop\nUSE shop;\n-- one statement\nDELIMITER $$\n"
        "ALTER TABLE orders DROP note$$\n-- as before\nDELIMITER ;\nALTER TABLE orders ADD x int;"
    )
    assert run(script, "--format", "json") == 3
    found = described(capsys)["statements"]
    assert [statement["type"] for statement in found] == ["ALTER TABLE", "ALTER TABLE"]
    assert [statement["effects"][0]["topic"] for statement in found] == ["aq.shop.orders"] * 2


def test_the_server_is_asked_instead(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ALTER TABLE orders DROP live", "--live", "--format", "json") == 3
    assert described(capsys)["statements"][0]["effects"][0]["column"] == "live"


def test_a_tools_statements_are_one_alter(capsys: pytest.CaptureFixture[str]) -> None:
    steps = (
        "CREATE TABLE _orders_gho LIKE orders; ALTER TABLE _orders_gho DROP note;"
        "RENAME TABLE orders TO _orders_del, _orders_gho TO orders; DROP TABLE _orders_del"
    )
    assert run(steps, "--format", "json") == 3
    effects = [s["effects"] for s in described(capsys)["statements"]]
    assert [len(each) for each in effects] == [0, 0, 1, 0]
    assert effects[2][0]["kind"] == "column removed"


@pytest.mark.parametrize("form", ["dump", "rebuilt"])
def test_a_file_is_enough(
    form: str,
    settings: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AQUEDUCT_CONFIG")
    monkeypatch.chdir(settings.parent)
    settings.unlink()
    source = settings.with_name("schema")
    rebuilt = {"databases": dict(history().now().snapshot(create_table))}
    source.write_bytes(DUMP.encode() if form == "dump" else orjson.dumps(rebuilt))
    assert run("ALTER TABLE orders DROP note", "--input", str(source), "--format", "json") == 3
    (effect,) = described(capsys)["statements"][0]["effects"]
    assert effect["topic"] == "<prefix>.shop.orders"


def test_what_a_file_has_that_is_not_understood_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "schema.sql"
    source.write_text("CREATE TABLE orders (id int, !); CREATE TABLE t (id int)")
    assert run("ALTER TABLE t ADD x int", "--input", str(source)) == 3
    assert ": ignored: " in capsys.readouterr().err


def test_a_file_selects_a_database_after_a_comment(tmp_path: Path) -> None:
    source = tmp_path / "schema.sql"
    source.write_text(
        "CREATE DATABASE other;\nUSE other;\n"
        "--\n-- Current Database: `shop`\n--\n\nUSE `shop`;\nCREATE TABLE t (id int PRIMARY KEY);"
    )
    assert run("ALTER TABLE shop.t ADD x int", "--input", str(source)) == 0


def test_a_command_of_the_client_that_a_file_has_in_another_form_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "schema.sql"
    source.write_text("CREATE TABLE t (id int); USE other of two; CREATE TABLE o (id int);")
    assert run("ALTER TABLE t ADD x int", "--input", str(source)) == 3
    assert ": ignored: USE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["ALTER TABLE nowhere ADD x int"], DdlUnresolved),
        (["ALTER TABLE orders ADD"], DdlUnresolved),
        (["ALTER TABLE orders DROP nothing"], DdlUnresolved),
        (["/*!40101 USE shop */; ALTER TABLE orders ADD x int"], DdlUnresolved),
        (["USE shop\nALTER TABLE orders DROP note"], DdlUnresolved),
        (["DELIMITER\nALTER TABLE orders DROP note"], DdlUnresolved),
        (["ALTER TABLE orders ADD x int", "--input", "not/there"], UsageError),
    ],
)
def test_what_cannot_be_judged_is_no_yes(arguments: list[str], error: type[AqueductError]) -> None:
    with pytest.raises(error):
        run(*arguments)


def test_json_that_is_something_else_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_text('{"tables": {}}')
    with pytest.raises(UsageError, match="schema rebuild"):
        run("ALTER TABLE orders ADD x int", "--input", str(source))


def test_modes_decide_how_it_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run('ALTER TABLE orders ADD "x" int', "--sql-mode", "ANSI_QUOTES") == 0
    with pytest.raises(SystemExit):
        run("ALTER TABLE orders ADD x int", "--sql-mode", "NO_SUCH")
    assert "NO_SUCH" in capsys.readouterr().err
