"""The first data of servers, made once for each kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.first_data import copy_to, key_of
from devstack.processes import Children

OPTIONS = {"server_id": "1", "lower_case_table_names": "0"}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "mysqld"
    path.write_bytes(b"the program")
    return path


def test_a_kind_is_made_once_and_each_server_has_its_own_copy(tmp_path: Path) -> None:
    content, made = b"page" + bytes(1 << 17) + b"end" + bytes(1 << 16), []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "ibdata1").write_bytes(content)
        (folder / "auto.cnf").write_text("server-uuid")

    for name in ("one", "two"):
        copy_to(tmp_path / name, "kind", make, cache=_cache(tmp_path), owner=Children())
        assert (tmp_path / name / "ibdata1").read_bytes() == content
        assert not (tmp_path / name / "auto.cnf").exists(), "its UUID is its own"
        (tmp_path / name / "ibdata1").write_bytes(b"written since")
    assert len(made) == 1


def test_a_copy_of_zeros_has_holes(tmp_path: Path) -> None:
    def make(folder: Path) -> None:
        (folder / "undo").write_bytes(bytes(1 << 20))

    copy_to(tmp_path / "one", "kind", make, cache=_cache(tmp_path), owner=Children())
    facts = (tmp_path / "one/undo").stat()
    assert (facts.st_size, facts.st_blocks) == (1 << 20, 0)


def test_what_was_not_made_to_its_end_is_made_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_to(tmp_path / "one", "kind", fail, cache=_cache(tmp_path), owner=Children())
    copy_to(
        tmp_path / "one",
        "kind",
        lambda folder: (folder / "whole").touch(),
        cache=_cache(tmp_path),
        owner=Children(),
    )
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["whole"]


def test_servers_that_differ_in_what_leaves_no_trace_are_of_one_kind(program: Path) -> None:
    kind = key_of(program, OPTIONS, ("--initialize",))
    assert key_of(program, OPTIONS | {"server_id": "2"}, ("--initialize",)) == kind


@pytest.mark.parametrize("other", ["lower_case_table_names", "an_option_nobody_knows"])
def test_servers_that_differ_in_anything_else_are_not(program: Path, other: str) -> None:
    kind = key_of(program, OPTIONS, ("--initialize",))
    assert key_of(program, OPTIONS | {other: "1"}, ("--initialize",)) != kind
    assert key_of(program, OPTIONS, ("--bootstrap",)) != kind
    program.write_bytes(b"a newer program")
    assert key_of(program, OPTIONS, ("--initialize",)) != kind


def _cache(folder: Path) -> Path:
    cache = folder / "cache"
    (cache / "first-data").mkdir(parents=True, exist_ok=True)
    return cache
