"""Records: the fields of the envelope are those of the page, and images are the ones that were stored."""

import hashlib
import re

import orjson
import pytest

from tests.architecture.tree import PROJECT
from wire.records import SOURCE, Op, Origin, is_claimed, origin_in, shard_head, subscribers_name

PAGE = (PROJECT / "docs/wire.md").read_text()


def test_the_page_has_each_member_of_source_and_no_other() -> None:
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `source.")]
    named = {name for cell in cells for name in re.findall(r"`(?:source\.)?([a-z_]+)`", cell)}
    assert named == SOURCE.keys()


def test_the_page_has_each_kind_of_change() -> None:
    (line,) = (line for line in PAGE.splitlines() if line.startswith("| `op` |"))
    assert [f"`{op.value}`" in line for op in Op] == [True] * 5


def test_a_key_that_names_the_real_table_begins_with_it() -> None:
    head = shard_head(("shop", "trade_07", 'o"3'))
    assert orjson.loads(head + '"id":1}') == {"__shard": ["shop", "trade_07", 'o"3'], "id": 1}
    assert shard_head(None) == "{"


def test_a_record_in_another_format_has_its_number_in_headers() -> None:
    headers = {"destination": b"shop", "epoch": b"3", "seq": b"4711", "format": b"avro"}
    assert origin_in(headers) == Origin("shop", 3, 4711)
    assert origin_in(headers).order == (3, 4711)
    with pytest.raises(KeyError):
        origin_in({"destination": b"shop"})


def test_subscribers_know_a_table_by_its_logical_name_if_it_has_one() -> None:
    real = {"db": "shop_1", "table": "orders_3"}
    assert subscribers_name(real) == ("shop_1", "orders_3")
    logical = {"logical_db": "trade", "logical_table": "orders"}
    assert subscribers_name({**real, **logical}) == ("trade", "orders")


@pytest.mark.parametrize("member", ["size", "sha256"])
def test_images_are_taken_only_as_they_were_stored(member: str) -> None:
    stored = b'{"before":null}'
    claim = {"size": len(stored), "sha256": hashlib.sha256(stored).hexdigest()}
    assert is_claimed({**claim, "location": "x"}, stored)
    assert not is_claimed({**claim, member: None}, stored)
    assert not is_claimed({}, stored)
