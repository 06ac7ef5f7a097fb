"""The folders of the warehouse: nothing leaves it, and no two tables meet."""

import posixpath
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.warehouse_folders import folder, table_path, unfolder, warehouse_path

NASTY = [
    "..",
    ".",
    "a/b",
    "/etc",
    "%2e",
    "a%",
    "__ledger",
    "_x",
    "A",
    "a",
    "nul\0",
    "é",
    "a b",
    "*",
]


@pytest.mark.parametrize("name", NASTY)
def test_a_folder_is_one_plain_path_part(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9%A-F-][a-z0-9_.%A-F-]*", folder(name))
    path = table_path("/wh", name, name)
    assert posixpath.normpath(path) == path
    assert path.startswith("/wh/")
    assert path.count("/") == 3


def test_folders_differ_even_where_case_does_not_count() -> None:
    assert len({folder(name).lower() for name in NASTY}) == len(NASTY)


@given(st.text(min_size=1, max_size=64), st.text(min_size=1, max_size=64))
def test_two_names_never_share_a_folder(one: str, other: str) -> None:
    assert (folder(one).lower() == folder(other).lower()) == (one == other)
    assert len(folder(one)) <= 200


@given(st.text(alphabet=st.characters(codec="ascii"), min_size=1, max_size=20))
def test_a_folder_gives_its_name_back(name: str) -> None:
    assert unfolder(folder(name)) == name


def test_a_folder_is_the_same_forever() -> None:
    assert warehouse_path("Shop", "_x y") == "%53hop/%5Fx%20y"
    assert folder("é" * 64) == f"{'%C3%A9' * 25}%x845836d7e680de9961df321148f8cb5e"
    assert unfolder(folder("é" * 64)) == folder("é" * 64)
