from __future__ import annotations

from pathlib import Path

import pytest

from app.__main__ import main
from tests.unit.app.migrate.debezium.test_importing import CASES


def test_a_connector_and_its_offset_become_settings_with_another_prefix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES / "mariadb"
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
