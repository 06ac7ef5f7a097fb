"""The impact of table changes on subscribers, and that the sink behaves as stated."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from connectors.mysql.ddl.catalog import Catalog
from connectors.mysql.ddl.definition import Column, Execution, Server, Session, Table
from connectors.mysql.ddl.online import OnlineAlter, ShadowRules, TableMovedAway, logical
from connectors.mysql.ddl.parsed_statement import parse_statement, renamed_columns
from spark_sink.errors import SinkError
from spark_sink.source.schemas import TableVersion, parse_version
from spark_sink.warehouse.shape import Shape, shaped
from tables.history.impact.findings import Severity, _added
from tables.history.impact.impact import (
    NOTHING,
    Impact,
    RouteOf,
    as_text,
    ddl_effects,
    impact,
    rows_changed,
    severest,
    truncated,
)
from tables.history.resolved_statement import unlogged_rows
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Route, Routes
from wire.warehouse_folders import warehouse_path

SERVER = Server(version=(9, 7, 4))
SHOP = Session(database="shop")
ALL = Routes(prefix="aq").of
T = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(80) NOT NULL, c decimal(12,2) NOT NULL,"
    " d datetime(3) NOT NULL, e enum('x','y'), f varchar(9) CHARACTER SET latin1 NOT NULL, g json)"
)
KEYLESS = T.replace(" PRIMARY KEY", " NOT NULL")


def catalog(*statements: str) -> Catalog:
    found = Catalog(SERVER)
    for sql in ("CREATE DATABASE shop CHARACTER SET utf8mb4", *statements):
        found.apply(sql, SHOP)
    return found


def meant(statement: str, *before: str, route_of: RouteOf = ALL) -> tuple[Impact, ...]:
    changes = catalog(*before or (T,)).apply(statement, SHOP)
    renames = renamed_columns(parse_statement(statement, SERVER, SHOP))
    return impact(changes, route_of, renames=renames)


def short(impacts: tuple[Impact, ...]) -> list[str]:
    return [
        " ".join(filter(None, [one.severity.value, one.finding.kind, one.finding.column]))
        for one in impacts
    ]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("ADD x int", ["harmless column added x"]),
        ("ADD x int DEFAULT NULL", ["harmless column added x"]),
        ("ADD x int FIRST", ["harmless column added x"]),
        ("ADD x int DEFAULT 7", ["careful column added x"]),
        ("ADD x int NOT NULL", ["careful column added x"]),
        ("ADD x int AS (id + 1)", ["careful column added x"]),
        ("ADD __seq int", ["breaking column refused __seq"]),
        ("DROP a", ["breaking column removed a"]),
        ("RENAME COLUMN a TO x", ["breaking column renamed x"]),
        ("CHANGE A x bigint", ["breaking column renamed x", "careful column widened x"]),
        ("CHANGE a A int", ["breaking column renamed A"]),
        ("CHANGE a __SEQ int", ["breaking column renamed __SEQ", "breaking column refused __SEQ"]),
        ("RENAME COLUMN a TO e, RENAME COLUMN e TO a",
         ["breaking column renamed e", "breaking column renamed a", "harmless columns reordered"]),
        ("DROP e, RENAME COLUMN a TO e",
         ["breaking column renamed e", "breaking column removed e", "harmless columns reordered"]),
        ("DROP a, ADD x int", ["breaking column removed a", "harmless column added x"]),
        ("MODIFY a bigint", ["careful column widened a"]),
        ("MODIFY a smallint", ["breaking column narrowed a"]),
        ("MODIFY a int unsigned", ["breaking column changed a"]),
        ("MODIFY a int NOT NULL", ["careful column is never null a"]),
        ("MODIFY b varchar(80)", ["careful column may be null b"]),
        ("MODIFY b varchar(200) NOT NULL", ["careful column widened b"]),
        ("MODIFY b varchar(20) NOT NULL", ["breaking column narrowed b"]),
        ("MODIFY b varbinary(80) NOT NULL", ["breaking column changed b"]),
        ("MODIFY b varchar(80) CHARACTER SET latin1 NOT NULL", ["breaking character set changed b"]),
        ("MODIFY f varchar(9) CHARACTER SET utf8mb4 NOT NULL", ["harmless character set changed f"]),
        ("MODIFY b varchar(80) COLLATE utf8mb4_bin NOT NULL", []),
        ("MODIFY c decimal(14,2) NOT NULL", ["careful column widened c"]),
        ("MODIFY c decimal(14,4) NOT NULL", ["breaking column changed c"]),
        ("MODIFY c int NOT NULL", ["breaking column changed c"]),
        ("MODIFY d datetime NOT NULL", ["breaking column changed d"]),
        ("MODIFY e enum('x','y','z')", ["careful column widened e"]),
        ("MODIFY e enum('x')", ["breaking column narrowed e"]),
        ("MODIFY e enum('y','x')", []),
        ("MODIFY g longtext CHARACTER SET utf8mb4", ["careful column widened g"]),
        ("MODIFY a int FIRST", ["harmless columns reordered"]),
        ("MODIFY a int AS (id + 1) STORED", ["careful column generated a"]),
        ("MODIFY a int COMMENT 'x' INVISIBLE", []),
        ("ALTER a SET DEFAULT 5", []),
        ("ADD KEY (a)", []),
        ("DROP PRIMARY KEY", ["breaking key changed"]),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)", ["breaking key changed"]),
        ("RENAME COLUMN id TO pk", ["breaking column renamed pk", "breaking key changed"]),
        ("MODIFY id bigint", ["careful column widened id"]),
        ("MODIFY id decimal(10,0)", ["breaking column changed id", "breaking key written otherwise id"]),
        ("COMMENT 'x', ENGINE = InnoDB", []),
        ("CONVERT TO CHARACTER SET latin1",
         ["breaking character set changed b", "breaking character set changed e"]),
    ],
)  # fmt: skip
def test_an_alter_means_to_subscribers(action: str, expected: list[str]) -> None:
    assert short(meant(f"ALTER TABLE t {action}")) == expected


@pytest.mark.parametrize(
    ("before", "statement", "expected"),
    [
        ((T,), "DROP TABLE t", ["breaking table dropped"]),
        ((T,), "DROP DATABASE shop", ["breaking table dropped"]),
        ((), "CREATE TABLE n (id int)", ["harmless table created"]),
        ((), "CREATE TABLE n (__delta int)", ["harmless table created", "breaking column refused __delta"]),
        ((T,), "RENAME TABLE t TO u", ["breaking table renamed"]),
        ((T, "CREATE TABLE u (id int PRIMARY KEY)"), "RENAME TABLE t TO x, u TO t",
         ["breaking table renamed", "breaking table renamed",
          *(f"breaking column removed {name}" for name in "abcdefg")]),
        ((T,), "ALTER DATABASE shop CHARACTER SET latin1", []),
        ((T,), "CREATE TABLE IF NOT EXISTS t (x int)", []),
        ((KEYLESS,), "ALTER TABLE t ADD x int", ["harmless column added x", "breaking rows without a key"]),
        ((KEYLESS,), "ALTER TABLE t ADD KEY (a)", []),
        ((KEYLESS,), "ALTER TABLE t ADD PRIMARY KEY (id)", ["breaking key changed"]),
        ((KEYLESS,), "ALTER TABLE t ADD UNIQUE (id)", ["breaking key changed"]),
        (("CREATE TABLE t (id int PRIMARY KEY, a smallint)",), "ALTER TABLE t MODIFY a float",
         ["breaking column widened a"]),
        (("CREATE TABLE t (k varchar(9) PRIMARY KEY)",),
         "ALTER TABLE t MODIFY k varchar(9) COLLATE utf8mb4_bin", ["careful key collation changed k"]),
        (("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))",),
         "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)", ["breaking key changed"]),
    ],
)  # fmt: skip
def test_a_statement_means_to_subscribers(
    before: tuple[str, ...], statement: str, expected: list[str]
) -> None:
    changes = catalog(*before).apply(statement, SHOP)
    assert short(impact(changes, ALL)) == expected


def test_what_nobody_captures_means_nothing() -> None:
    nobody = Routes(prefix="aq", include=r"shop\.seen").of
    assert meant("DROP TABLE t", route_of=nobody) == ()
    assert truncated(("shop", "t"), nobody) == ()
    assert short(meant("RENAME TABLE t TO seen", route_of=nobody)) == ["careful table comes in"]
    # In place of another table, and through a third name.
    swap = "RENAME TABLE seen TO old, t TO seen"
    both = (T, T.replace("TABLE t", "TABLE seen"))
    assert "careful table comes in" in short(meant(swap, *both, route_of=nobody))
    some = Routes(prefix="aq", include=r"shop\.(seen|tmp)").of
    through = "RENAME TABLE seen TO old, t TO tmp, tmp TO seen"
    assert "careful table comes in" in short(meant(through, *both, route_of=some))
    # The other table of the statement has its rows.
    kept = Routes(prefix="aq", include=r"shop\.(seen|old)").of
    (one,) = [
        one for one in meant(swap, *both, route_of=kept) if one.finding.kind == "table comes in"
    ]
    assert (one.route.table, one.finding.old) == (("shop", "seen"), "shop.t")
    through = "RENAME TABLE t TO tmp, seen TO t, tmp TO seen"
    (one,) = [
        one for one in meant(through, *both, route_of=kept) if one.finding.kind == "table comes in"
    ]
    assert (one.route.table, one.finding.old) == (("shop", "seen"), "shop.t")
    (leaves,) = impact(
        catalog("CREATE TABLE seen (id int)").apply("RENAME TABLE seen TO x", SHOP), nobody
    )
    assert leaves.finding.consumers == "Its records end."


def test_a_shadow_that_becomes_another_table_comes_in_as_its_rows_were_skipped() -> None:
    before = catalog(T, T.replace("TABLE t", "TABLE _t_old"))
    changes = before.apply("RENAME TABLE _t_old TO kept", SHOP)
    found = logical(changes, ShadowRules(), known=before, before=lambda _: None)
    assert "careful table comes in" in short(impact(found, ALL))
    copied = before.apply("RENAME TABLE t TO _t_gone, kept TO t", SHOP)
    assert "careful table comes in" not in short(impact(copied, ALL))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE t DROP PARTITION p", {"t": "DROP PARTITION"}),
        ("ALTER TABLE t TRUNCATE PARTITION ALL", {"t": "TRUNCATE PARTITION"}),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
         {"t": "EXCHANGE PARTITION", "u": "EXCHANGE PARTITION"}),
        ("ALTER TABLE t DISCARD TABLESPACE", {"t": "DISCARD TABLESPACE"}),
        ("ALTER TABLE t IMPORT PARTITION p TABLESPACE", {"t": "IMPORT TABLESPACE"}),
        ("ALTER TABLE t ENGINE=BLACKHOLE", {"t": "ENGINE=BLACKHOLE"}),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", {"t": "ALTER IGNORE"}),
        ("/* app:shop */ ALTER IGNORE TABLE t ADD UNIQUE (a)", {"t": "ALTER IGNORE"}),
        ("ALTER ONLINE /*!50000 IGNORE */ TABLE t ADD PRIMARY KEY (id, a), DROP PRIMARY KEY",
         {"t": "ALTER IGNORE"}),
        ("SET STATEMENT max_statement_time = 0 FOR ALTER IGNORE TABLE t ADD UNIQUE (a)",
         {"t": "ALTER IGNORE"}),
        ("ALTER IGNORE TABLE t MODIFY a int UNIQUE", {"t": "ALTER IGNORE"}),
        ("ALTER IGNORE TABLE t ADD x int NOT NULL UNIQUE", {"t": "ALTER IGNORE"}),
        ("ALTER IGNORE TABLE t MODIFY id smallint", {"t": "ALTER IGNORE"}),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a), RENAME TO u", {"u": "ALTER IGNORE"}),
        ("ALTER IGNORE TABLE t MODIFY a smallint, ADD KEY (b)", {}),
        ("ALTER IGNORE TABLE t CONVERT TO CHARACTER SET latin1", {}),
        ("ALTER TABLE versioned DROP SYSTEM VERSIONING", {"versioned": "DROP SYSTEM VERSIONING"}),
        ("ALTER TABLE t MODIFY a int AUTO_INCREMENT, ADD KEY (a)", {"t": "AUTO_INCREMENT"}),
        ("ALTER TABLE t CHANGE a n int AUTO_INCREMENT UNIQUE", {"t": "AUTO_INCREMENT"}),
        ("ALTER TABLE t DROP id, ADD id int AUTO_INCREMENT", {"t": "AUTO_INCREMENT"}),
        ("ALTER TABLE t ADD n serial", {}),
        ("ALTER TABLE t MODIFY a int COMMENT 'AUTO_INCREMENT'", {}),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE u",
         {"t": "CONVERT PARTITION", "u": "CONVERT PARTITION"}),
        ("ALTER TABLE t ADD PARTITION (PARTITION q VALUES IN (3))", {}),
        ("ALTER TABLE t COALESCE PARTITION 1", {}),
        ("ALTER TABLE t ENGINE=MyISAM, ORDER BY a", {}),
        ("ALTER TABLE t ADD UNIQUE (a)", {}),
        ("TRUNCATE TABLE t", {}),
    ],
)  # fmt: skip
def test_rows_that_a_statement_changes_without_a_record_are_reported(
    statement: str, expected: dict[str, str]
) -> None:
    server = replace(SERVER, version=(11, 8, 2), mariadb=True)
    tables = Catalog(server)
    versioned = "CREATE TABLE versioned (id int PRIMARY KEY) WITH SYSTEM VERSIONING"
    for sql in ("CREATE DATABASE shop CHARACTER SET utf8mb4", f"{T} ENGINE=InnoDB", versioned):
        tables.apply(sql, SHOP)
    parsed = parse_statement(statement, server, SHOP)
    assert parsed.understood
    changes = tables.apply(statement, SHOP)
    found = unlogged_rows(parsed, changes)
    assert {name: what for (_, name), what in found} == expected
    for name, what in found:
        (one,) = rows_changed(name, what, ALL)
        assert (one.severity, one.finding.new) == (Severity.BREAKING, what)


def test_rows_that_get_other_numbers_are_reported() -> None:
    tables = catalog("CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, a int)")
    for mark, action, expected in (
        ("1", "MODIFY id bigint AUTO_INCREMENT", ()),
        ("2", "CHANGE id pk bigint AUTO_INCREMENT", ()),
        ("3", "DROP pk, ADD pk bigint AUTO_INCREMENT", ((("shop", "t"), "AUTO_INCREMENT"),)),
    ):
        parsed = parse_statement(f"ALTER TABLE t {action}", SERVER, SHOP)
        executed = replace(parsed, execution=Execution(mark=mark))
        assert unlogged_rows(executed, tables.apply_parsed(executed)) == expected


def test_a_column_whose_expression_changes_is_reported() -> None:
    before = T[:-1] + ", v int GENERATED ALWAYS AS (a * 2) STORED)"
    after = "ALTER TABLE t MODIFY v int GENERATED ALWAYS AS (a * 3) STORED"
    assert short(meant(after, before)) == ["careful column generated v"]
    same = "ALTER TABLE t MODIFY v int AS ( `A`*2 ) STORED COMMENT 'twice'"
    assert short(meant(same, before)) == []


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("MODIFY a decimal(9,2)", ["breaking column changed a", "careful column generated w",
                                   "careful column generated v"]),
        ("MODIFY a int NOT NULL", ["careful column is never null a", "careful column generated w",
                                   "careful column generated v"]),
        ("MODIFY f varchar(9) CHARACTER SET ascii NOT NULL",
         ["breaking character set changed f", "careful column generated g"]),
        ("MODIFY a bigint", ["careful column widened a"]),
        ("MODIFY f varchar(9) CHARACTER SET utf8mb4 NOT NULL", ["harmless character set changed f"]),
        ("MODIFY e enum('x')", ["breaking column narrowed e"]),
        ("MODIFY w int AS (`V` + 2)", ["careful column generated w"]),
    ],
)  # fmt: skip
def test_a_column_that_is_computed_from_a_changed_column_is_reported(
    action: str, expected: list[str]
) -> None:
    before = (
        "CREATE TABLE t (id int PRIMARY KEY, a int, e enum('x','y'),"
        " f varchar(9) CHARACTER SET latin1 NOT NULL, w int AS (`V` + 1),"
        " v int AS (coalesce(A, 7) * 2) STORED, g varchar(20) AS (concat(f, 'a')))"
    )
    assert short(meant(f"ALTER TABLE t {action}", before)) == expected


def test_a_truncated_table_is_reported_by_one_record() -> None:
    (one,) = truncated(("shop", "t"), ALL)
    assert (one.severity, one.route.topic) == (Severity.CAREFUL, "aq.shop.t")
    (other,) = truncated(("shop", "t"), Routes(prefix="aq", truncates="omit").of)
    assert (one.finding.kind, other.finding.kind) == ("table truncated", "truncate omitted")
    assert "keeps its rows" in other.finding.warehouse
    (other,) = truncated(("shop", "t"), Routes(prefix="aq", truncates="deletes").of)
    assert (one.finding.kind, "A delete of each row" in other.finding.consumers) == (
        "table truncated",
        True,
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a int, b int", "a int, x int", ["breaking column renamed x"]),
        ("a int, b int, c int", "x int, b int, y int",
         ["breaking column renamed x", "breaking column renamed y"]),
        ("a int, b int, c int", "x int, y int, c int",
         ["breaking column renamed x", "breaking column renamed y"]),
        ("a int, b int", "a int, x bigint", ["breaking column removed b", "harmless column added x"]),
        ("a int, b int", "x int, a int",
         ["breaking column removed b", "harmless column added x"]),
        ("a int, b int, c int", "a int, x int",
         ["breaking column removed b", "breaking column removed c", "harmless column added x"]),
    ],
)  # fmt: skip
def test_a_rename_is_guessed_where_no_statement_has_it(
    old: str, new: str, expected: list[str]
) -> None:
    found = impact([online(old, new)], ALL)
    assert (
        short(tuple(one for one in found if one.finding.kind != "rows without a key")) == expected
    )


def online(old: str, new: str) -> OnlineAlter:
    tables = catalog(f"CREATE TABLE t ({old})", f"CREATE TABLE _t_gho ({new})")
    return OnlineAlter(
        name=("shop", "t"),
        old=tables["shop", "t"],
        new=tables["shop", "_t_gho"],
        tool="gh-ost",
        shadow=("shop", "_t_gho"),
    )


def test_a_table_that_is_quarantined_may_come_back() -> None:
    aside = TableMovedAway(name=("shop", "t"), old=catalog(T)["shop", "t"], tool="gh-ost", to=None)
    assert short(impact([aside], ALL)) == ["careful table quarantined"]


def mapped(rule: str, *, include: str = r"shop\..*") -> RouteOf:
    """The routes with a rule for the logical table `trade.t` of `t` and `t2`."""
    table = "{from: [t, t2]" + rule + "}"
    text = "{databases: {trade: {from: [shop]}}, tables: {trade.t: " + table + "}}"
    return Routes(prefix="aq", include=include, mapping=from_yaml(text)).of


@pytest.mark.parametrize(
    ("rule", "topic", "warehouse", "is_kept"),
    [
        ("", "One record with op t", "Its rows are marked deleted; those of other", False),
        (", truncates: deletes", "A delete of each row", "Its rows are marked deleted", False),
        (", on_drop: keep", "no deletes are written", "It keeps its rows, and status says", True),
        (", truncates: omit", "no deletes are written", "It keeps its rows, and status says", True),
    ],
)
def test_a_mapping_decides_what_a_drop_and_a_rename_of_its_tables_mean(
    rule: str, topic: str, warehouse: str, *, is_kept: bool
) -> None:
    route_of = mapped(rule)
    dropped = meant("DROP TABLE t", route_of=route_of)
    assert topic in dropped[0].finding.consumers
    assert dropped[0].finding.warehouse.startswith(warehouse)
    assert dropped[0].to_json()["logical"] == {"database": "trade", "table": "t"}
    omitted = ["careful truncate omitted"] if is_kept else []
    assert short(dropped) == ["breaking table dropped", *omitted]
    renamed = meant("RENAME TABLE t TO t2", route_of=route_of)
    assert short(renamed) == ["breaking table renamed", *omitted, "careful table comes in"]
    assert renamed[0].finding.warehouse.startswith(warehouse)
    assert "begins by itself" in renamed[-1].finding.consumers


def test_a_rename_between_a_mapped_name_and_another_moves_no_rows() -> None:
    only = mapped("", include=r"shop\.t")
    (leaves,) = meant("RENAME TABLE t TO u", route_of=only)
    assert "marked deleted" in leaves.finding.warehouse
    apart = "{tables: {shop.t: {topic: t}}}"
    some = Routes(prefix="aq", mapping=from_yaml(apart)).of
    left = meant("RENAME TABLE t TO u", route_of=some)
    assert short(left) == ["breaking table renamed", "careful table comes in"]
    comes = impact(
        catalog(T.replace("TABLE t", "TABLE u")).apply("RENAME TABLE u TO t", SHOP), some
    )
    assert short(comes) == ["breaking table renamed", "careful table comes in"]
    assert comes[0].finding.warehouse.startswith("Its rows get a name of their own")


def test_effects_are_reported_as_json_with_topic_and_warehouse() -> None:
    changes = catalog(T.replace("TABLE t", "TABLE Order_Items")).apply(
        "ALTER TABLE Order_Items DROP a, MODIFY c decimal(14,2) NOT NULL", SHOP
    )
    result = ddl_effects(changes, ALL)
    assert json.loads(json.dumps(result)) == result
    assert result[0] == {
        "kind": "column removed",
        "severity": "breaking",
        "database": "shop",
        "table": "Order_Items",
        "column": "a",
        "old": "int",
        "new": None,
        "topic": "aq.shop.Order_Items",
        "consumers": "Records have no such field any more.",
        "logical": None,
        "warehouse_table": "shop/%4Frder_%49tems",
        "warehouse_columns": ["a"],
        "warehouse": "The column stays; it is NULL in rows that are written from now on.",
    }
    assert result[1]["warehouse"] == "The column is widened from decimal(12,2) to decimal(14,2)."


def test_the_worst_is_reported_first() -> None:
    impacts = meant("ALTER TABLE t ADD x int, DROP a, MODIFY c decimal(14,2) NOT NULL")
    assert severest(impacts) is Severity.BREAKING
    text = as_text(impacts)
    assert text.splitlines()[0] == "breaking: 1 breaking, 1 careful, 1 harmless"
    headlines = [line for line in text.splitlines()[1:] if line and line[0] != " "]
    assert headlines == [
        "breaking: column removed: shop.t.a: int",
        "careful: column widened: shop.t.c: decimal(12,2) -> decimal(14,2)",
        "harmless: column added: shop.t.x: int",
    ]
    assert as_text(()) == f"{NOTHING}\n"
    assert severest(()) is Severity.HARMLESS


# --- the sink, asked itself -------------------------------------------------------------------------

ACTIONS = [
    "ADD x int", "ADD x datetime NOT NULL", "ADD __epoch int", "DROP a", "RENAME COLUMN a TO x",
    "CHANGE a A int", "MODIFY a bigint", "MODIFY a int unsigned", "MODIFY a double", "MODIFY a smallint",
    "MODIFY a varchar(20)", "MODIFY b text NOT NULL", "MODIFY b blob NOT NULL", "MODIFY c decimal(14,2)",
    "MODIFY c decimal(14,4)", "MODIFY c decimal(60,2)", "MODIFY c bigint", "MODIFY d date",
    "MODIFY d timestamp", "MODIFY d datetime", "MODIFY e varchar(9)", "MODIFY g text", "MODIFY g point",
    "DROP PRIMARY KEY", "DROP PRIMARY KEY, ADD PRIMARY KEY (b, id)", "RENAME COLUMN id TO pk",
    "CHANGE id ID int NOT NULL", "MODIFY id bigint", "DROP a, ADD x bigint", "MODIFY a int AFTER c",
]  # fmt: skip


def version(number: int, table: Table) -> TableVersion:
    key = {"destination": "d", "database": "shop", "table": "t", "version": number}
    columns = [
        {"name": c.name, "type": c.type, "nullable": c.nullable, "charset": c.charset}
        for c in table.columns
    ]
    body = {**key, "wire": 1, "primary_key": list(table.primary_key), "columns": columns}
    return parse_version(json.dumps(body))


@pytest.mark.parametrize("action", ACTIONS)
def test_the_sink_does_what_is_documented_of_it(action: str) -> None:
    tables = catalog(T)
    old = tables["shop", "t"]
    impacts = meant(f"ALTER TABLE t {action}")
    tables.apply(f"ALTER TABLE t {action}", SHOP)
    result = " ".join(one.finding.warehouse for one in impacts)
    error, added, wider = sink(old, tables["shop", "t"])
    assert re.findall(r"The table waits in the sink with (\w+)", result) == (
        [error] if error else []
    )
    if not error:
        assert re.findall(r"is added as (\S+);", result) == added
        assert re.findall(r"is widened from (\S+) to (\S+)\.", result) == wider


def sink(old: Table, new: Table) -> tuple[str, list[str], list[tuple[str, str]]]:
    """The error that stops it; otherwise the types that it adds, and those it widens."""
    held = shaped(None, [version(1, old)], name=("shop", "t"))
    try:
        wanted: Shape = shaped(held, [version(2, new)], name=("shop", "t"))
    except SinkError as error:
        return type(error).__name__, [], []
    before, after = dict(held.columns), dict(wanted.columns)
    fresh = [name for name in after if name not in before]
    gone = [c.name for c in old.columns if c.name not in {x.name for x in new.columns}]
    # It renames a column after it has the shape, with all values.
    added = [] if len(gone) == len(fresh) == 1 and "x" in fresh and after["x"] == before[gone[0]] else [
        after[name] for name in fresh
    ]  # fmt: skip
    return "", added, [(before[n], after[n]) for n in before if before[n] != after[n]]


@pytest.mark.parametrize(
    ("action", "warehouse"),
    [
        ("ADD x int", "The column is added as int; it is NULL in existing rows, as at the source."),
        (
            "ADD x int DEFAULT 7",
            (
                "The column is added as int; existing rows get what MySQL gives them, or NULL where that "
                "differs from row to row."
            ),
        ),
        ("RENAME COLUMN a TO x", "The column gets the new name, and keeps its values."),
        (
            "MODIFY a smallint",
            (
                "The column stays int. Values that MySQL changes are changed alike, or the table waits with "
                "ValuesChanged."
            ),
        ),
        ("MODIFY a bigint", "The column is widened from int to bigint."),
    ],
)
def test_the_warehouse_has_the_values_that_mysql_gives_existing_rows(
    action: str, warehouse: str
) -> None:
    assert [one.finding.warehouse for one in meant(f"ALTER TABLE t {action}")] == [warehouse]


@pytest.mark.parametrize(
    ("initial", "warehouse"),
    [
        ('{"value":"7"}', "existing rows get the value that MySQL gives them."),
        (
            '{"unknown":"DEFAULT (UUID())"}',
            "it is NULL in existing rows. At the source it is not, but the value is not known.",
        ),
    ],
)
def test_a_statement_that_was_executed_shows_whether_the_value_is_known(
    initial: str, warehouse: str
) -> None:
    column = Column(name="x", type="int", nullable=False, initial=initial)
    (found,) = _added(column, existing=True)
    assert found.warehouse == f"The column is added as int; {warehouse}"


def test_the_warehouse_is_named_as_subscribers_know_it() -> None:
    def sharded(name: tuple[str, str]) -> Route:
        return Route(table=name, logical=("all", "orders"), topic="aq.all.orders", partitions=1)

    (one,) = truncated(("shop7", "orders_3"), sharded)
    answer = one.to_json()
    assert (answer["database"], answer["table"]) == ("shop7", "orders_3")
    assert answer["topic"] == "aq.all.orders"
    assert answer["warehouse_table"] == warehouse_path("all", "orders")
