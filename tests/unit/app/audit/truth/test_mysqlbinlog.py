"""The paths searched for mysqlbinlog."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.audit.errors import ProgramMissing
from app.audit.truth.mysqlbinlog import program


def executable(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))


def test_the_path_goes_before_the_environments_own_programs(tmp_path: Path) -> None:
    beside = executable(tmp_path / "venv/bin/mysqlbinlog")
    assert program() == (beside,)
    first = executable(tmp_path / "path/mysqlbinlog")
    assert program() == (first,)


def test_a_command_that_is_given_keeps_its_arguments(tmp_path: Path) -> None:
    loader = executable(tmp_path / "own/ld.so")
    assert program(f"{loader} --library-path /x mysqlbinlog") == (
        *(loader, "--library-path", "/x", "mysqlbinlog"),
    )


def test_a_program_that_is_nowhere_is_named() -> None:
    with pytest.raises(ProgramMissing, match="mysqlbinlog is not found"):
        program()
