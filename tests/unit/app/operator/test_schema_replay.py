from pathlib import Path

import orjson
import pytest

from app.__main__ import main

STATEMENT = b'{"database": "d", "sql": "CREATE TABLE t (a INT)"}\n'


def replay(*arguments: str | Path) -> int:
    """The command's exit code, argparse's own included."""
    try:
        return main(["schema", "replay", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


def test_a_files_result_is_printed(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source = tmp_path / "x.jsonl"
    source.write_bytes(STATEMENT)
    assert replay("--input", source, "--format", "json") == 0
    assert orjson.loads(capfdbinary.readouterr().out)["tables"].keys() == {"d.t"}


def test_what_cannot_be_resolved_is_in_the_result_and_no_failure(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source = tmp_path / "x.jsonl"
    source.write_bytes(b"?\n")
    assert replay("--input", source) == 0
    output = capfdbinary.readouterr()
    assert len(orjson.loads(output.out)["unparsed"]) == 1
    assert output.err == b""


def test_each_file_of_a_folder_has_a_result_of_its_name_and_its_own_tables(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_bytes(STATEMENT.replace(b" t ", b" %b " % name.encode()))
    (tmp_path / "other.txt").write_text("is no input")
    output = tmp_path / "deep" / "results"
    assert replay("--input-dir", tmp_path, "--output-dir", output) == 0
    results = {path.name: orjson.loads(path.read_bytes()) for path in output.iterdir()}
    tables = {name: list(result["tables"]) for name, result in results.items()}
    assert tables == {"one.json": ["d.one"], "two.json": ["d.two"]}


def test_wrong_arguments_are_reported_in_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "x.jsonl"
    source.write_bytes(STATEMENT)
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments in (
        (),
        ("--input", source, "--input-dir", tmp_path),
        ("--input", tmp_path / "missing"),
        ("--input", tmp_path),
        ("--input", source, "--output-dir", tmp_path),
        ("--input", source, "--format", "yaml"),
        ("--input-dir", tmp_path),
        ("--input-dir", tmp_path / "missing", "--output-dir", tmp_path),
        ("--input-dir", empty, "--output-dir", tmp_path),
        ("--input-dir", tmp_path, "--output-dir", source),
    ):
        assert replay(*arguments) == 2, arguments
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.strip(), arguments
