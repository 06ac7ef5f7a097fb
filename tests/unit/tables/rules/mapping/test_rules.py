"""Column actions: what holds for one that is not listed."""

from __future__ import annotations

import pytest

from tables.rules.mapping.forms import from_yaml, to_yaml, written_kind
from tables.rules.mapping.rules import ACTIONS, ActionKind, ColumnAction, Rules, contradictions
from tables.rules.masking import MaskingKeys, column_rules, masks
from tables.rules.routes.rule_faults import version_faults

UNLISTED = ColumnAction(column="a", action="blur", argument="3")


def test_an_action_that_is_not_listed_hides_its_column_and_fits_neither_keys_nor_numbers() -> None:
    assert masks([UNLISTED])
    assert UNLISTED.kind.shows_part
    assert written_kind({"domain": "d", "blur": 3}) == written_kind("blur") == UNLISTED.kind
    rules = Rules(column_actions=(UNLISTED,), partition_by=("A",))
    assert ["which blur hides" in one for one in contradictions(rules)] == [True]
    faults = version_faults(rules, (), {"A": "int", "b": "varchar(3)"}, ("A",))
    assert ["after blur different rows" in faults[0], "blur is for texts" in faults[1]] == [
        True
    ] * 2
    with pytest.raises(KeyError, match="blur"):
        column_rules([UNLISTED], MaskingKeys())


def test_only_a_kind_that_states_so_shows_values_or_keeps_them_apart() -> None:
    kind = ActionKind()
    assert (kind.hides, kind.shows_part) == (True, True)
    assert (kind.keeps_apart, kind.any_type, kind.removes) == (False,) * 3


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_is_read_and_written_by_its_kind(action: str) -> None:
    kind = ACTIONS[action]
    argument = f": {7 if kind.is_number else 'k'}" if kind.argument else ""
    entry = f"{{{action}{argument}}}" if argument else action
    mapping = from_yaml(f"{{tables: {{x: {{column_actions: {{a: {entry}}}}}}}}}")
    (one,) = mapping.tables[0].rules.column_actions
    assert (one.action, one.kind) == (action, kind)
    assert from_yaml(to_yaml(mapping)) == mapping
