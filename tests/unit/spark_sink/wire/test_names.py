"""Names: nothing leaves the warehouse, and no two tables meet."""

import posixpath
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sink import __main__ as command
from spark_sink.wire.names import (
    action,
    folder,
    literal,
    quoted,
    table_path,
    topic_pattern,
    unfolder,
)

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


@pytest.mark.parametrize(
    ("topic", "matches"),
    [
        ("a.q.shop.orders", True),
        ("a.q.x--y.order_items", True),
        ("a.q.__schemas", False),
        ("a.q.__transactions.shop", False),
        ("a.q.__ddl.shop", False),
        ("aXq.shop.orders", False),
        ("a.q.shop.__orders", True),
        ("a.q.trade", True),
        ("a.q.trade_all.orders.x", True),
        ("a.q", False),
        ("other.shop.orders", False),
    ],
)
def test_only_row_topics_of_the_prefix_are_read(topic: str, matches: bool) -> None:
    assert (re.fullmatch(topic_pattern("a.q"), topic) is not None) == matches
    assert (re.search(topic_pattern("a.q"), topic) is not None) == matches
    assert re.search(topic_pattern("a.q"), f"test-{topic}") is None


def test_include_and_exclude_narrow_the_topics() -> None:
    pattern = topic_pattern("aq", include=r"aq\.shop\..*|aq\.crm\..*", exclude=r".*\.log_.*")
    topics = ["aq.shop.a", "aq.crm.b", "aq.hr.c", "aq.shop.log_x"]
    assert [t for t in topics if re.search(pattern, t)] == ["aq.shop.a", "aq.crm.b"]
    assert [t for t in topics if re.fullmatch(pattern, t)] == ["aq.shop.a", "aq.crm.b"]


def test_quotes_in_names_stay_inside_them() -> None:
    assert quoted("a`b") == "`a``b`"
    assert literal("a'b\\c") == r"'a\'b\\c'"


@pytest.mark.parametrize(
    "name",
    [("shop", "t"), ("x.y", "t"), ("a b", "it's\\"), ("${env}", "new\nline\x1b"), ("s", "a`.b")],
)
def test_the_remedy_names_a_table_as_a_shell_takes_it(name: tuple[str, str]) -> None:
    described = action(name)
    assert described.isprintable()
    shell = ["bash", "-c", f"printf '%s\\0' {described.removeprefix('Run: ')}"]
    words = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split("\0")
    assert words[:4] == ["python", "-m", "spark_sink", "reload"]
    assert command._table(words[4]) == name
