"""The impact on subscribers of a mapped table: of what is published, and of rules that no longer fit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from connectors.mysql.ddl.catalog import Catalog
from tables.history.impact.impact import Impact, ddl_effects, impact
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import MaskingKeys
from tables.rules.routes.routes import Routes
from tests.unit.tables.history.impact.test_impact import (
    SERVER,
    SHOP,
    catalog,
    meant,
    online,
    short,
)

KEYS = MaskingKeys((("k1", bytes(32)),))
USERS = (
    "CREATE TABLE t (id int PRIMARY KEY, ssn int, phone varchar(80), mail varchar(80), note text,"
    " nick varchar(20), secret int, price decimal(8,2))"
)
MASKED = (
    "column_actions: {SSN: {hmac: k1}, phone: {truncate: 3}, mail: redact, note: {redact: '***'},"
    " nick: {rename: alias}, secret: drop}"
)


def routes(rules: str) -> Routes:
    text = f"{{tables: {{users: {{from: [shop.t], {rules}}}}}}}"
    return Routes(prefix="aq", destination="m1", mapping=from_yaml(text), keys=KEYS)


def judged(action: str, rules: str = MASKED, table: str = USERS) -> tuple[Impact, ...]:
    return meant(f"ALTER TABLE t {action}", table, route_of=routes(rules).of)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("MODIFY ssn bigint", []),
        ("MODIFY ssn smallint", ["breaking masked values changed ssn"]),
        ("MODIFY ssn decimal(12,2)", ["breaking masked values changed ssn"]),
        # JSON has 5 for the one and 5.0 for the other, and so another HMAC.
        ("MODIFY ssn double", ["breaking masked values changed ssn"]),
        ("MODIFY ssn varchar(11)", []),
        ("MODIFY ssn varchar(9)", ["breaking masked values changed ssn"]),
        ("MODIFY ssn enum('1','2')", ["breaking masked values changed ssn"]),
        ("MODIFY ssn int(9) zerofill", ["breaking masked values changed ssn"]),
        ("MODIFY ssn int NOT NULL", ["careful column is never null ssn"]),
        ("MODIFY phone varchar(5)", []),
        ("MODIFY phone varchar(200)", []),
        ("MODIFY phone tinytext", []),
        ("MODIFY phone varchar(2)", ["breaking masked values changed phone"]),
        ("MODIFY phone enum('abc')", ["breaking masked values changed phone"]),
        ("MODIFY phone varchar(80) CHARACTER SET latin1", ["breaking character set changed phone"]),
        ("MODIFY mail varchar(20)", ["harmless column narrowed mail"]),
        ("MODIFY mail varchar(99)", ["harmless column widened mail"]),
        ("MODIFY mail int", ["breaking column changed mail"]),
        ("MODIFY mail varchar(80) CHARACTER SET latin1 NOT NULL", []),
        ("MODIFY note varchar(5)", []),
        ("MODIFY note int", []),
        ("MODIFY nick varchar(40)", ["careful column widened alias"]),
        ("MODIFY secret varchar(9)", []),
        ("MODIFY secret int FIRST", []),
        ("MODIFY nick varchar(20) FIRST", ["harmless columns reordered"]),
        ("ADD x int", ["harmless column added x"]),
        ("DROP price", ["breaking column removed price"]),
        ("RENAME COLUMN price TO cost", ["breaking column renamed cost"]),
        ("CONVERT TO CHARACTER SET latin1",
         ["breaking character set changed phone", "breaking character set changed alias"]),
    ],
)  # fmt: skip
def test_a_change_is_judged_by_what_is_published(action: str, expected: list[str]) -> None:
    assert short(judged(action)) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("columns: [id, twice]", ["careful column generated twice"]),
        ("column_actions: {price: drop, twice: {rename: double}}", ["careful column generated double"]),
        ("column_actions: {price: drop, twice: {hmac: k1}}", ["careful column generated twice"]),
        ("column_actions: {price: drop, twice: redact}", []),
        ("columns: [id]", []),
    ],
)  # fmt: skip
def test_a_column_that_is_computed_from_an_unpublished_one_is_reported(
    rules: str, expected: list[str]
) -> None:
    table = "CREATE TABLE t (id int PRIMARY KEY, price int, twice int AS (price * 2) STORED)"
    assert short(judged("MODIFY price smallint", rules, table)) == expected


def test_types_and_names_are_those_that_subscribers_know() -> None:
    mail, alias = judged("MODIFY mail int, MODIFY nick varchar(40)")
    assert "always NULL" in mail.finding.consumers
    assert "TypeConflict" in mail.finding.warehouse
    assert (alias.finding.old, alias.finding.new) == ("varchar(20)", "varchar(40)")
    assert alias.finding.warehouse_columns == ("alias",)
    created = impact(catalog().apply(USERS, SHOP), routes(MASKED).of)
    assert short(created) == ["harmless table created"]


@pytest.mark.parametrize(
    ("rules", "action", "fault", "rest"),
    [
        (MASKED, "DROP ssn", "no column 'SSN', which its action hmac names", ["breaking column removed ssn"]),
        (MASKED, "DROP secret", "no column 'secret', which its action drop names", []),
        # What remains once the mapping has the new name.
        (MASKED, "RENAME COLUMN ssn TO tax_id", "no column 'SSN'", ["breaking column renamed tax_id"]),
        (MASKED, "CHANGE nick handle varchar(20)", "no column 'nick', which its action rename", []),
        (MASKED, "RENAME COLUMN secret TO s2", "no column 'secret'", []),
        (MASKED, "MODIFY phone int", "phone is int, and truncate is for texts",
         ["breaking masked values changed phone"]),
        (MASKED, "ADD alias int", "nick is renamed to alias, which is another column's name", []),
        ("columns: [id, price]", "DROP price", "no column 'price', which columns names",
         ["breaking column removed price"]),
        ("columns: [id, price]", "DROP PRIMARY KEY, ADD PRIMARY KEY (id, nick)", "columns omits 'nick'",
         ["breaking key changed"]),
        ("key: [price]", "DROP price", "no column 'price', which key names",
         ["breaking column removed price", "breaking key changed"]),
        ("partition_by: [price]", "RENAME COLUMN price TO cost", "no column 'price', which partition_by names",
         ["breaking column renamed cost"]),
        ("partition_by: [price]", "DROP PRIMARY KEY", "partition_by needs a key", ["breaking key changed"]),
        ("tags: {price: dear}", "DROP price", "no column 'price', which the tag dear names",
         ["breaking column removed price"]),
        ("row_filter: price > 0", "DROP price", "row_filter: there is no column 'price'",
         ["breaking column removed price"]),
        ("row_filter: price > 0", "MODIFY price json", "row_filter: ", ["breaking column changed price"]),
        ("truncates: deletes", "DROP PRIMARY KEY", "truncates is deletes, and the table has no key",
         ["breaking key changed"]),
        ("shard_in_key: always", "CHANGE id __shard int", "its key has a column __shard",
         ["breaking column renamed __shard", "breaking key changed"]),
    ],
)  # fmt: skip
def test_a_rule_that_no_longer_fits_is_breaking_by_its_name(
    rules: str, action: str, fault: str, rest: list[str]
) -> None:
    first, *others = judged(action, rules)
    assert short((first,)) == ["breaking rule impossible"]
    assert fault in (first.finding.new or "")
    assert "RuleImpossible" in first.finding.consumers
    assert [one for one in short(tuple(others)) if "rows without a key" not in one] == rest


def test_a_rule_that_did_not_fit_before_either_is_not_blamed_on_the_statement() -> None:
    rules = "column_actions: {gone: {hmac: k1}}"
    assert short(judged("ADD x int", rules)) == ["harmless column added x"]
    (first, _) = judged("DROP price", "columns: [id, price, gone]")
    assert first.finding.new == "there is no column 'price', which columns names"
    # The statement that makes the column ends it.
    assert short(judged("ADD gone int", rules)) == ["harmless column added gone"]
    renamed, masked = judged("RENAME COLUMN ssn TO gone", rules)
    assert (renamed.finding.kind, masked.finding.new) == ("column renamed", "varchar(67)")


def test_a_table_without_a_rule_may_stop_by_the_settings() -> None:
    found = meant(
        "ALTER TABLE t DROP PRIMARY KEY",
        USERS,
        route_of=Routes(prefix="aq", truncates="deletes").of,
    )
    assert short(found) == ["breaking rule impossible", "breaking key changed"]


def test_a_table_that_takes_a_name_is_judged_by_its_rules() -> None:
    found = meant(
        "RENAME TABLE u TO t",
        USERS.replace("TABLE t", "TABLE u"),
        route_of=routes("columns: [x]").of,
    )
    assert "breaking rule impossible" in short(found)
    created = impact(catalog().apply("CREATE TABLE t (id int)", SHOP), routes("key: [x]").of)
    assert short(created) == ["harmless table created", "breaking rule impossible"]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("ADD x int", []),
        ("ADD x int FIRST", []),
        ("DROP note", []),
        ("RENAME COLUMN note TO n2", []),
        ("MODIFY ssn varchar(9)", []),
        ("MODIFY price decimal(9,2)", ["careful column widened price"]),
        ("ADD __seq int", []),
    ],
)
def test_columns_that_the_list_omits_are_nobodys_concern(action: str, expected: list[str]) -> None:
    assert short(judged(action, "columns: [ID, price]")) == expected


@pytest.mark.parametrize(
    ("rules", "action", "expected"),
    [
        ("key: [price]", "DROP PRIMARY KEY", []),
        ("key: [price]", "MODIFY price decimal(8,3)",
         ["breaking column changed price", "breaking key written otherwise price"]),
        ("column_actions: {id: {hmac: k1}}", "MODIFY id bigint", []),
        ("column_actions: {id: {hmac: k1}}", "MODIFY id decimal(10,2)",
         ["breaking masked values changed id", "breaking key written otherwise id"]),
        ("column_actions: {id: {rename: pk}}", "MODIFY id decimal(10,2)",
         ["breaking column changed pk", "breaking key written otherwise pk"]),
    ],
)  # fmt: skip
def test_the_key_is_that_of_the_records(rules: str, action: str, expected: list[str]) -> None:
    assert short(judged(action, rules)) == expected


@pytest.mark.parametrize(
    ("action", "shown", "expected"),
    [
        # The rule masks the column that has the name from now on.
        ("RENAME COLUMN ssn TO x, RENAME COLUMN price TO ssn", "x", "breaking column unmasked x"),
        ("RENAME COLUMN ssn TO x, ADD ssn int", "x", "breaking column unmasked x"),
        ("RENAME COLUMN secret TO x, ADD secret int", "x", "breaking column unmasked x"),
    ],
)
def test_masked_values_that_get_a_name_without_a_rule_are_reported(
    action: str, shown: str, expected: str
) -> None:
    found = judged(action)
    assert expected in short(found)
    (one,) = [one for one in found if one.finding.kind == "column unmasked"]
    assert one.finding.new == shown


def test_columns_that_mariadb_adds_may_have_rules() -> None:
    tables = Catalog(replace(SERVER, version=(11, 8, 2), mariadb=True))
    for sql in (
        "CREATE DATABASE shop",
        "CREATE TABLE t (id int PRIMARY KEY) WITH SYSTEM VERSIONING",
    ):
        changes = tables.apply(sql, SHOP)
    found = impact(changes, routes("column_actions: {row_start: drop, ROW_END: drop}").of)
    assert short(found) == ["harmless table created"]


def test_an_online_change_is_judged_as_published_too() -> None:
    change = online("id int, ssn int, secret int", "id bigint, ssn bigint, x int")
    found = impact([change], routes("column_actions: {ssn: {hmac: k1}, secret: drop}").of)
    kept = [one for one in short(found) if "rows without a key" not in one]
    assert kept == ["breaking rule impossible", "careful column widened id"]


def test_effects_of_the_ddl_topic_have_published_names() -> None:
    changes = catalog(USERS).apply("ALTER TABLE t MODIFY nick text, MODIFY ssn bigint", SHOP)
    (one,) = ddl_effects(changes, routes(MASKED).of)
    assert json.loads(json.dumps(one)) == one
    assert (one["column"], one["old"], one["new"]) == ("alias", "varchar(20)", "text")
    assert one["warehouse_columns"] == ["alias"]
