"""Rules of single tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from spark_sink.settings.model import TableRule
from spark_sink.warehouse.table_rules import NO_LAYOUT, NO_RULES, Layout, TableRules, among


def test_the_first_rule_that_matches_and_states_a_setting_decides() -> None:
    rules = TableRules([
        TableRule(match=r"shop\.orders", history=True, deletion_vectors=False),
        TableRule(match=r"shop\..*", deletes="hard", history=False, cluster_by=("day",)),
        TableRule(match=r".*", deletes="soft", history=True, partition_by=("day",)),
    ])  # fmt: skip
    clustered = Layout(cluster_by=("day",), is_stated=True, is_purged=True)
    found = {
        name: (rules.has_hard_deletes(name), rules.has_history(name), rules.layout(name))
        for name in [("shop", "orders"), ("shop", "items"), ("shop2", "orders")]
    }
    assert found == {
        ("shop", "orders"): (True, True, replace(clustered, has_vectors=False)),
        ("shop", "items"): (True, False, clustered),
        ("shop2", "orders"): (False, True, Layout(partition_by=("day",), is_stated=True)),
    }
    assert rules.any_hard
    assert not NO_RULES.any_hard
    assert NO_RULES.layout(("shop", "orders")) == NO_LAYOUT


def test_a_table_must_match_as_a_whole() -> None:
    rules = TableRules([TableRule(match=r"shop\.order", history=True)])
    assert not rules.has_history(("shop", "orders"))


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"match": "("}, "no regular expression"),
        ({"match": "a", "deletes": "never"}, "'soft' or 'hard'"),
        ({"match": "a", "partition_by": ["a"], "cluster_by": ["b"]}, "exclude each other"),
        ({"match": "a", "cluster_by": list("abcde")}, "at most 4"),
        ({"match": "a", "hard": True}, "Extra inputs"),
        ({"history": True}, "Field required"),
    ],
)
def test_a_bad_rule_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        TableRule(**given)


def test_columns_of_a_layout_are_matched_without_case_and_only_if_they_exist() -> None:
    assert among(("DAY", "region"), ["id", "Day"]) == ["Day"]
