"""A transaction to skip, as the arguments name it."""

from __future__ import annotations

import argparse

import pytest

from app.operator.commands.cursor import skip
from connectors.errors import UsageError
from connectors.mysql.position import Coordinates


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    skip.configure(parser)
    return parser.parse_args(["shop", "--why", "a test", *words])


def test_a_transaction_is_named_by_its_gtid_or_by_where_it_begins() -> None:
    assert skip.named_transaction(options("--gtid", "u:10")) == "u:10"
    assert skip.named_transaction(options("--file", "b", "--pos", "4")) == Coordinates("b", 4)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name the transaction by --gtid"),
        (("--gtid", "x", "--file", "b", "--pos", "4"), "name the transaction by --gtid"),
        (("--file", "b"), "--file needs --pos"),
    ],
)
def test_words_that_name_no_one_transaction_are_refused(words: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        skip.named_transaction(options(*words))
