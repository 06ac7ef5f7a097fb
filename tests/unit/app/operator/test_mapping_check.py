from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from app.__main__ import main

SEED = {
    "com.pajk.Roma.dbs": '[{"logicDb":"logicDb1","realDbs":"realDb11,realDb12"}]',
    "com.pajk.Roma.topics": '[{"logicDb":"logicDb1","topic":"topic1"}]',
}


def test_a_folder_of_documents_is_checked_and_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in SEED.items():
        (tmp_path / name).write_text(text)
    asked = ["--table", "realDb12.t", "--table", "other.t"]
    assert main(["mapping", "check", str(tmp_path), *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 logical databases, 0 logical tables, no fault"
    assert lines[2:] == [
        "realDb12.t: logicDb1.t, topic <prefix>.topic1, tags none",
        "other.t: not mapped; it is published under its own name",
    ]
    assert main(["mapping", "check", str(tmp_path), *asked, "--format", "json"]) == 0
    value = orjson.loads(capsys.readouterr().out)
    assert value["asked"]["realDb12.t"] == {
        "logical": "logicDb1.t",
        "topic": "topic1",
        "tags": {},
    }


@pytest.mark.remedy("MappingError")
def test_all_faults_are_listed_with_their_entries_until_they_are_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text("tables: {a: {row_filter: 'sleep(1)'}, b: {topic: '!'}, c: {colour: red}}")
    assert main(["mapping", "check", str(file)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("aqueduct: MappingError")
    for part in ("tables.a.row_filter", "table b", "tables.c: 'colour'"):
        assert part in error
    file.write_text("tables: {a: {row_filter: 'id > 1'}, b: {topic: x}, c: {topic: y}}")
    assert main(["mapping", "check", str(file)]) == 0


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mapping", "check", "gone.yaml"]) == 1
    assert "gone.yaml cannot be read" in capsys.readouterr().err
