"""A statement's impact, judged by a real server's tables."""

from pathlib import Path

import orjson
import pytest

from app.__main__ import main
from devstack.mysql import Mysql
from tests.harness.servers import Servers
from tests.harness.sql import run

SETTINGS = """\
prefix: aq
kafka: {{bootstrap_servers: "nobody:9092"}}
destinations:
  shop:
    source: {{host: {host}, port: {port}, user: aqueduct, password: aqueduct}}
    server_id: 77
"""


@pytest.fixture(params=["9.7", "5.7", "mariadb-11.8"])
def mysql(
    request: pytest.FixtureRequest,
    servers: Servers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Mysql:
    server = servers(request.param)
    path = tmp_path / "aqueduct.yaml"
    path.write_text(SETTINGS.format(host=server.host, port=server.port))
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(path))
    run(server, "DROP DATABASE IF EXISTS judged", "CREATE DATABASE judged")
    return server


def judge(*statements: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    words = ["schema", "impact", "shop", *statements, "--live", "--database", "judged"]
    code = main([*words, "--format", "json"])
    output = orjson.loads(capsys.readouterr().out)
    return code, [effect["kind"] for one in output["statements"] for effect in one["effects"]]


def test_a_statement_is_judged_by_the_server_and_not_run(
    mysql: Mysql, capsys: pytest.CaptureFixture[str]
) -> None:
    run(mysql, "CREATE TABLE judged.t (id int PRIMARY KEY, a int, b varchar(20))")
    statement = "ALTER TABLE t DROP a, MODIFY b varchar(40)"
    expected = 3, ["column removed", "column widened"]
    assert judge(statement, capsys=capsys) == expected
    assert judge(statement, capsys=capsys) == expected
    run(mysql, f"ALTER TABLE judged.{statement.removeprefix('ALTER TABLE ')}")
    assert judge("ALTER TABLE t ADD a int", capsys=capsys) == (0, ["column added"])
