from __future__ import annotations

import pytest

from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.mapping import Mapping
from tables.rules.routes.rule_faults import version_faults

TYPES = {"id": "int", "name": "varchar(80)", "note": "text", "price": "decimal(8,2)"}


def faults(entry: str, types: dict[str, str] = TYPES) -> list[str]:
    mapping: Mapping = from_yaml(f"tables: {{x: {entry}}}")
    (table,) = mapping.tables
    return version_faults(table.rules, table.tags, types, ("id",))


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("{columns: [id, gone]}", "'gone', which columns names"),
        ("{key: [gone]}", "'gone', which key names"),
        ("{partition_by: [gone]}", "'gone', which partition_by names"),
        ("{column_actions: {gone: redact}}", "'gone', which its action redact names"),
        ("{tags: {gone: t}}", "'gone', which the tag t names"),
        ("{columns: [name]}", "omits 'id'"),
        ("{columns: [id], tags: {name: t}}", "omits 'name' of the tag t"),
        ("{column_actions: {name: {rename: Note}}}", "another column's name"),
        ("{row_filter: 'gone > 0'}", "row_filter: there is no column 'gone'"),
        ("{row_filter: 'name > 0'}", "cannot be compared"),
        ("{column_actions: {ID: redact}}", "after redact different rows could have one key"),
        ("{column_actions: {price: {truncate: 2}}}", "truncate is for texts"),
    ],
)
def test_a_rule_that_a_version_makes_impossible_is_named(entry: str, fault: str) -> None:
    (found,) = faults(entry)
    assert fault in found


def test_fitting_rules_have_no_fault() -> None:
    assert not faults("{columns: [ID, name, note], row_filter: id > 0, tags: {Note: n}}")
    assert not faults("{column_actions: {name: {rename: note}, note: {rename: name}}}")
    assert not faults("{columns: [id, name], column_actions: {name: {rename: note}}}")
