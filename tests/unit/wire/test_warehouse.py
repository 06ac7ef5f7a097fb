"""Tables of the warehouse: nothing leaves it, no two tables meet, and each value stays exact."""

import posixpath
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.warehouse import folder, table_path, unfolder, warehouse_path, warehouse_type, widened

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


@pytest.mark.parametrize(
    ("column_type", "found"),
    [
        ("bigint(20) unsigned", "decimal(20,0)"),
        ("int(5) unsigned zerofill", "bigint"),
        ("decimal(65,30) unsigned", "string"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("enum('a(1)','unsigned')", "string"),
        ("inet6", None),
        ("()", None),
    ],
)
def test_a_column_of_a_type_has_one_type_or_none(column_type: str, found: str | None) -> None:
    assert warehouse_type(column_type) == found


@pytest.mark.parametrize(
    ("held", "wanted", "result"),
    [
        ("int", "int", "int"),
        ("int", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("int", "decimal(20,0)", "decimal(20,0)"),
        ("bigint", "decimal(20,0)", "decimal(20,0)"),
        ("decimal(20,0)", "bigint", "decimal(20,0)"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("int", "decimal(5,0)", "int"),
        ("decimal(5,0)", "int", "decimal(10,0)"),
        ("bigint", "decimal(19,0)", "decimal(20,0)"),
        ("decimal(10,2)", "decimal(12,4)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(12,4)", "decimal(10,2)", "decimal(12,4)"),
        ("decimal(38,0)", "decimal(38,10)", None),
        ("float", "double", "double"),
        ("double", "float", "double"),
        ("int", "double", "double"),
        ("bigint", "double", None),
        ("double", "decimal(10,2)", None),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("timestamp_ntz", "timestamp", None),
        ("int", "string", None),
        ("string", "int", None),
        ("binary", "string", None),
    ],
)
def test_a_type_is_widened_only_where_every_old_and_new_value_stays_exact(
    held: str, wanted: str, result: str | None
) -> None:
    assert widened(held, wanted) == result
