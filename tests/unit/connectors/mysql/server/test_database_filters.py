"""The filters that may omit changes of captured tables."""

from __future__ import annotations

import pytest

from connectors.mysql.server.database_filters import (
    BinlogFilters,
    Captured,
    ReplicationFilter,
    concerning,
)
from tables.rules.routes.routes import Routes

TABLES = frozenset({("shop", "t"), ("shop", "u"), ("other", "x")})


def captured(include: str, *databases: str) -> Captured:
    return Captured(
        include=include,
        captures=Routes(prefix="aq", include=include).captures,
        tables=TABLES,
        databases=frozenset(databases),
    )


@pytest.mark.parametrize(
    ("do", "ignore", "left"),
    [
        (("other",), (), ["shop"]),
        ((), ("shop",), ["shop"]),
        (("shop",), (), []),
        ((), ("other", "mysql"), []),
    ],
)
def test_a_binlog_filter_is_judged_by_captured_databases(
    do: tuple[str, ...], ignore: tuple[str, ...], left: list[str]
) -> None:
    filters = BinlogFilters(do=do, ignore=ignore)
    assert filters.excluded(captured(r"shop\..*").known) == left
    # As it is written where backslashes are doubled, and for a database that does not exist yet.
    assert filters.excluded(captured(r"shop\\..*").known) == left


def test_a_database_that_is_only_named_counts_too() -> None:
    assert BinlogFilters(ignore=("soon",)).excluded(captured(r"soon\.t", "soon").known) == ["soon"]


@pytest.mark.parametrize(
    ("name", "rule", "does"),
    [
        ("REPLICATE_IGNORE_DB", "shop", True),
        ("REPLICATE_IGNORE_DB", "other", False),
        ("REPLICATE_DO_DB", "shop", False),
        ("REPLICATE_DO_DB", "other", True),
        ("REPLICATE_DO_TABLE", "shop.t", True),
        ("REPLICATE_IGNORE_TABLE", "shop.u", True),
        ("REPLICATE_IGNORE_TABLE", "other.x", False),
        ("REPLICATE_WILD_DO_TABLE", "shop.%", False),
        ("REPLICATE_WILD_DO_TABLE", "shop.t%", True),
        ("REPLICATE_WILD_IGNORE_TABLE", "sh%.%", True),
        ("REPLICATE_WILD_IGNORE_TABLE", r"shop\_2.%", False),
        ("REPLICATE_WILD_IGNORE_TABLE", "shop.t_", False),
        ("REPLICATE_WILD_IGNORE_TABLE", "shop._", True),
        ("REPLICATE_REWRITE_DB", "a->b", True),
        ("REPLICATE_IGNORE_SERVER_IDS", "3", True),
        ("replica_skip_errors", "1062", True),
    ],
)
def test_a_replication_filter_is_harmless_only_where_that_is_certain(
    name: str, rule: str, does: bool
) -> None:
    one = ReplicationFilter(name, rule)
    assert concerning([one], captured(r"shop\.(t|u)")) == ([one] if does else [])


def test_where_everything_is_captured_any_filter_concerns_it() -> None:
    for rule in ("shop", "third"):
        one = ReplicationFilter("REPLICATE_IGNORE_DB", rule)
        assert concerning([one], captured(r".*\..*")) == [one]
    only = ReplicationFilter("REPLICATE_DO_DB", "shop")
    assert concerning([only], captured(r".*\..*")) == [only]
