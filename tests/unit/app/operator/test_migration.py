"""The imports of other programs' configurations as commands."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from app.__main__ import main
from tests.unit.app.migrate.canal.test_importing import CASES
from tests.unit.app.migrate.debezium.test_importing import CASES as CONNECTORS


def test_the_files_are_written_once_and_the_report_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["import-canal", str(CASES / "kafka" / "conf"), "--output", str(tmp_path / "new")]
    words += ["--format", "json", "--prefix", "shop"]
    assert main(words) == 3
    refused = orjson.loads(capsys.readouterr().out)["refused"]
    assert refused == [
        "canal.instance.filter.dml.delete",
        "canal.instance.filter.query.ddl",
        "canal.mq.dynamicTopic",
        "canal.mq.partitionHash",
    ]
    words += [word for key in refused for word in ("--accept", key)]
    assert main([*words, "--accept", "canal.id"]) == 2
    assert "--accept canal.id" in capsys.readouterr().err
    assert main(words) == 0
    report = orjson.loads(capsys.readouterr().out)
    settings, mapping = (Path(path) for path in report["written"])
    assert settings.read_text().splitlines()[2] == "prefix: shop"
    assert "topic: money" in settings.read_text()
    assert "partition_by" in mapping.read_text()
    assert len(report["by_hand"]) > 5
    settings.write_text("mine")
    assert main(words) == 2
    assert "exists already" in capsys.readouterr().err
    assert settings.read_text() == "mine"


def test_an_import_without_rules_writes_no_mapping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["import-canal", str(CASES / "numbered" / "conf"), "--output", str(tmp_path)]
    assert main([*words, "-D", "Canal.zkServers=other:2181"]) == 0
    assert "Unknown" not in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["aqueduct.yaml"]
    assert "hosts: 'other:2181'" in (tmp_path / "aqueduct.yaml").read_text()


@pytest.mark.parametrize("word", ["-D=x", "--cursor=orders"])
def test_a_pair_without_a_value_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["import-canal", str(tmp_path), "--output", str(tmp_path), word])
    assert end.value.code == 2


def test_a_connector_and_its_offset_become_settings_with_another_prefix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CONNECTORS / "mariadb"
    words = ["import-debezium", str(case / "connector.json"), "--output", str(tmp_path)]
    words += ["--offsets", str(case / "offsets.json"), "--prefix", "new"]
    lost = ["key.converter", "value.converter", "include.schema.changes"]
    accepted = [word for key in lost for word in ("--accept", key)]
    assert main([*words, *accepted]) == 3
    assert not (tmp_path / "aqueduct.yaml").exists()
    text = capsys.readouterr().out
    assert text.startswith("Cannot be kept")
    assert text.endswith("nothing was written; to accept that: --accept table.include.list\n")
    assert main([*words, *accepted, "--accept", "table.include.list"]) == 0
    assert capsys.readouterr().out.endswith(f"wrote {tmp_path / 'aqueduct.yaml'}\n")
    text = (tmp_path / "aqueduct.yaml").read_text()
    assert "prefix: new\n" in text
    assert "file: maria-bin.000009" in text


def test_a_connector_of_another_database_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"connector.class": "io.debezium.connector.oracle.OracleConnector"}')
    assert main(["import-debezium", str(file), "--output", str(tmp_path)]) == 2
    assert "OracleConnector" in capsys.readouterr().err
