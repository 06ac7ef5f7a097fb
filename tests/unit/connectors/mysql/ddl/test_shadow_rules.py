"""Names of shadows, and what the statements of tools mean; real servers run them in tests/integration."""

import re

import pytest

from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Server, Session, Table, TableChange, TableName
from connectors.mysql.ddl.online import (
    RULES,
    Logical,
    Noise,
    OnlineAlter,
    Role,
    ShadowRules,
    TableMovedAway,
    logical,
    rule,
)
from tests.integration.ddl_tools.sequences import AFTER, BEGIN, SEQUENCES, TWO_STEPS

LONG = "a" * 64
KNOWN = {("shop", name) for name in ("t", "_u", "a_new", "Ünï", "t_20240101120000", LONG, "b" * 62)}


def described(name: str) -> tuple[str, Role, str | None] | None:
    found = ShadowRules().shadow(("shop", name), KNOWN)
    return None if found is None else (found.tool, found.role, found.of and found.of[1])


OSC = "pt-online-schema-change or Spirit"
UUID = "7cee19dd_354b_11eb_82cd_f875a4d24e90"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_t_gho", ("gh-ost", Role.GHOST, "t")),
        ("_T_GHO", None),
        ("_t_GHO", ("gh-ost", Role.GHOST, "t")),
        ("_t_ghc", ("gh-ost", Role.LOG, "t")),
        ("_t_ghk", ("gh-ost", Role.LOG, "t")),
        ("_t_del", ("gh-ost", Role.OLD, "t")),
        ("_t_20261121100000_del", ("gh-ost", Role.OLD, "t")),
        ("_t_20240101120000_gho", ("gh-ost", Role.GHOST, "t_20240101120000")),
        ("_t_20240101120000_del", ("gh-ost", Role.OLD, "t_20240101120000")),
        ("_t_rev_del", ("gh-ost", Role.OLD, "t")),
        ("_t_20261121100000_rev_del", ("gh-ost", Role.OLD, "t")),
        ("_Ünï_gho", ("gh-ost", Role.GHOST, "Ünï")),
        ("_a_new_gho", ("gh-ost", Role.GHOST, "a_new")),
        ("__u_gho", ("gh-ost", Role.GHOST, "_u")),
        (f"_{'a' * 59}_gho", ("gh-ost", Role.GHOST, LONG)),
        (f"_{'a' * 44}_20261121100000_del", ("gh-ost", Role.OLD, LONG)),
        ("_t_new", (OSC, Role.GHOST, "t")),
        ("___t_new", (OSC, Role.GHOST, "t")),
        ("__u_new", (OSC, Role.GHOST, "_u")),
        ("____u_new", (OSC, Role.GHOST, "_u")),
        ("_t_old", (OSC, Role.OLD, "t")),
        ("AB12CD___t_old", ("pt-online-schema-change", Role.OLD, "t")),
        (f"_{'b' * 62}_", ("pt-online-schema-change", Role.GHOST, "b" * 62)),
        (f"___{'a' * 61}", ("pt-online-schema-change", Role.GHOST, LONG)),
        ("_t_chkpnt", ("Spirit", Role.LOG, "t")),
        ("_t_old_20261121_100000", ("Spirit", Role.OLD, "t")),
        ("_spirit_sentinel", ("Spirit", Role.LOG, None)),
        ("_spirit_checkpoint", ("Spirit", Role.LOG, None)),
        ("_spirit_move_checkpoint", ("Spirit", Role.LOG, None)),
        ("__osc_new_t", ("OnlineSchemaChange", Role.GHOST, "t")),
        ("__osc_chg_t", ("OnlineSchemaChange", Role.LOG, "t")),
        ("o!t", ("OnlineSchemaChange", Role.OLD, "t")),
        ("__osc_new_online_schema_change_temp_tbl", ("OnlineSchemaChange", Role.GHOST, None)),
        ("lhmn_t", ("LHM", Role.GHOST, "t")),
        ("lhma_2026_11_21_10_00_00_123_t", ("LHM", Role.OLD, "t")),
        (f"lhma_2026_11_21_10_00_00_123_{'a' * 35}", ("LHM", Role.OLD, LONG)),
        ("tp_4711_ogt_t", ("DMS", Role.GHOST, "t")),
        ("tp_4711_ogl_t", ("DMS", Role.LOG, "t")),
        ("tp_4711_del_t", ("DMS", Role.OLD, "t")),
        ("_vt_vrp_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_", ("Vitess", Role.GHOST, None)),
        ("_vt_hld_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_", ("Vitess", Role.OLD, None)),
        ("_vt_HOLD_6ace8bcef73211ea87e9f875a4d24e90_20200915120410", ("Vitess", Role.OLD, None)),
        (f"_{UUID}_20201203114014_vrepl", ("Vitess", Role.GHOST, None)),
        # Tables of users': nothing is there that they could be the shadow of, or the words do not fit.
        ("_x_new", None), ("_x_gho", None), ("_x_old", None), ("x_new", None), ("t_new", None),
        ("a_new", None), ("_new", None), ("_gho", None), ("t", None), ("lhmn_", None), ("_t_newer", None),
        ("tp_ogt_t", None), ("_vt_hld_x", None), ("c" * 64, None), (f"_{'c' * 63}", None),
    ],
)  # fmt: skip
def test_a_name_is_a_shadow_beside_its_table_alone(
    name: str, expected: tuple[str, Role, str | None] | None
) -> None:
    assert described(name) == expected


def test_a_shadow_belongs_to_its_own_database() -> None:
    assert ShadowRules().shadow(("other", "_t_gho"), KNOWN) is None


def test_operators_name_their_own_shadows_and_what_is_none() -> None:
    rules = ShadowRules(
        [*RULES, rule(r"shadow_of_(?P<table>\w+)", Role.GHOST)], never=[r"shop\._t_old", "x"]
    )
    found = rules.shadow(("shop", "shadow_of_t"), KNOWN)
    assert found is not None
    assert found.of == ("shop", "t")
    assert rules.shadow(("shop", "_t_old"), KNOWN) is None
    assert rules.shadow(("shop", "_t_new"), KNOWN) is not None
    with pytest.raises(ValueError, match="not a regular expression"):
        rule("(", Role.LOG)


class Migration:
    """A catalog under a tool's statements, and what they mean."""

    def __init__(self) -> None:
        self.catalog = Catalog(Server(version=(9, 7, 4)))
        self.last: dict[TableName, Table] = {}
        self.run(BEGIN[0])
        self.run(BEGIN[2])

    def run(self, sql: str) -> list[Logical]:
        changes = self.catalog.apply(sql, Session(database="osc"))
        found = logical(changes, ShadowRules(), known=self.catalog, before=self.last.get)
        self.last |= dict(self.catalog.items())
        return list(found)


def names(table: Table | None) -> list[str]:
    return [column.name for column in table.columns] if table else []


DDL = re.compile(r"\s*(create|alter|drop|rename)\b(?!.*\btrigger\b)", re.IGNORECASE)


@pytest.mark.parametrize("name", SEQUENCES)
def test_what_a_tool_does_is_one_alter(name: str) -> None:
    migration, found = Migration(), list[Logical]()
    old = migration.catalog["osc", "orders"]
    for step in SEQUENCES[name]:
        if DDL.match(step.sql):
            found += migration.run(step.sql)
    alters = [each for each in found if isinstance(each, OnlineAlter)]
    assert [(a.name, a.old, names(a.new)) for a in alters] == [(("osc", "orders"), old, [*AFTER])]
    assert alters[0].tool in name or name.split()[0] in alters[0].tool
    asides = [each for each in found if isinstance(each, TableMovedAway)]
    assert [aside.old for aside in asides] == ([old] if name in TWO_STEPS else [])
    assert {type(each) for each in found} <= {OnlineAlter, TableMovedAway, Noise}


def test_a_cut_over_that_is_taken_back_is_an_alter_back() -> None:
    migration = Migration()
    migration.run("CREATE TABLE _orders_gho LIKE orders")
    migration.run("ALTER TABLE _orders_gho ADD z int")
    migration.run("RENAME TABLE orders TO _orders_del, _orders_gho TO orders")
    found = migration.run("RENAME TABLE orders TO _orders_gho, _orders_del TO orders")
    alters = [each for each in found if isinstance(each, OnlineAlter)]
    assert [("z" in names(a.old), "z" in names(a.new)) for a in alters] == [(True, False)]
    assert len(found) == 2


def test_a_first_step_that_is_taken_back_leaves_the_table_as_it_was() -> None:
    migration = Migration()
    old = migration.catalog["osc", "orders"]
    (aside, noise) = migration.run("RENAME TABLE orders TO _orders_del")
    assert aside == TableMovedAway(
        name=("osc", "orders"), old=old, tool="gh-ost", to=("osc", "_orders_del")
    )
    assert isinstance(noise, Noise)
    (back,) = migration.run("RENAME TABLE _orders_del TO orders")
    assert isinstance(back, OnlineAlter)
    assert back.change.old == back.change.new == old


def test_a_swap_by_way_of_a_third_name_is_an_alter() -> None:
    migration = Migration()
    ghost = "_vt_vrp_6ace8bcef73211ea87e9f875a4d24e90_20200915120410_"
    migration.run(f"CREATE TABLE {ghost} (id int primary key)")
    hold = ghost.replace("vrp", "hld")
    found = migration.run(f"RENAME TABLE orders TO {hold}, {ghost} TO orders, {hold} TO {ghost}")
    assert [type(each) for each in found] == [OnlineAlter, Noise]
    (alter, _) = found
    assert isinstance(alter, OnlineAlter)
    assert (names(alter.new), alter.kept_as) == (["id"], ("osc", ghost))


@pytest.mark.parametrize(
    ("before", "statement", "expected"),
    [
        # Of users, not of tools.
        ("CREATE TABLE _x_new (a int)", "RENAME TABLE _x_new TO y", [TableChange, TableChange]),
        ("CREATE TABLE _orders_gho (a int)", "RENAME TABLE _orders_gho TO kept", [Noise, TableChange]),
        ("CREATE TABLE y (a int)", "RENAME TABLE orders TO z, y TO orders", [TableChange] * 4),
        ("CREATE TABLE y (a int)", "RENAME TABLE y TO _orders_new", [TableChange, Noise]),
        ("CREATE TABLE y (a int)", "RENAME TABLE y TO z, z TO y", []),
        ("CREATE TABLE y (a int)", "DROP TABLE orders", [TableChange]),
        ("CREATE TABLE _orders_old (a int)", "DROP TABLE orders", [TableChange]),
        ("CREATE TABLE _orders_new (a int)", "DROP TABLE orders", [TableMovedAway]),
        ("CREATE TABLE _orders_new (a int)", "DROP TABLE orders, _orders_new", [TableChange, Noise]),
        ("CREATE TABLE _p_new (a int)", "RENAME TABLE _p_new TO p", [TableChange]),
    ],
)  # fmt: skip
def test_what_only_looks_like_a_tool_is_published_as_it_is(
    before: str, statement: str, expected: list[type]
) -> None:
    migration = Migration()
    migration.run(before)
    assert [type(each) for each in migration.run(statement)] == expected
