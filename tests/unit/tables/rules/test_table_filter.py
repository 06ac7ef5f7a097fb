"""The captured tables, by Canal's two lists."""

import pytest

from tables.rules.table_filter import TableFilter, open_databases


@pytest.mark.parametrize(
    ("include", "black", "name", "captured"),
    [
        (r".*\..*", "", ("any", "table"), True),
        (r"shop\..*", "", ("shop", "orders"), True),
        (r"shop\..*", "", ("shop2", "orders"), False),
        (r"shop\.orders", "", ("shop", "orders_old"), False),
        (r"shop\.orders", "", ("myshop", "orders"), False),
        (r"a\.b, shop\.orders ,", "", ("shop", "orders"), True),
        (r"SHOP\.Orders", "", ("shop", "ORDERS"), True),
        (r"shop\..*", r"shop\.log", ("shop", "log"), False),
        (r"shop\..*", r"SHOP\.LOG", ("shop", "log"), False),
        (r"shop\.log", r"shop\.log", ("shop", "log"), False),
        (r"shop\..*", r"x\.y,shop\.tmp_.*", ("shop", "tmp_1"), False),
        (r"shop\..*", r"x\.y,shop\.tmp_.*", ("shop", "orders"), True),
        (r"shop\..*", "", ("shop", "two\nlines"), True),
        ("", "", ("shop", "orders"), False),
        (r".*\\..*", "", ("shop", "orders"), True),
        (r"shop\\..*", "", ("shop", "orders"), True),
        (r"shop\\..*", "", ("shopping", "orders"), False),
        (r"shop\..*", r"shop\\.log_\\d+", ("shop", "log_7"), False),
        (r"shop\\.a[\\]b", "", ("shop", r"a\b"), True),
        (r".*\..*", "", ("mysql", "rds_heartbeat2"), False),
        (r".*\..*", "", ("sys", "x"), False),
        (r"mysql\.rds_.*", "", ("mysql", "rds_heartbeat2"), True),
        (r"^MySQL\..*", "", ("mysql", "user"), True),
    ],
)
def test_a_table_is_captured_if_an_include_matches_it_wholly_and_no_black_one_does(
    include: str, black: str, name: tuple[str, str], captured: bool
) -> None:
    judged = TableFilter(include, black)
    assert judged.captures(*name) is captured
    assert judged.captures(*name) is captured


@pytest.mark.parametrize(("include", "black"), [("(", ""), (".*", "[")])
def test_what_is_no_expression_is_refused_by_its_text(include: str, black: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression"):
        TableFilter(include, black)


@pytest.mark.parametrize(
    ("include", "black", "database", "may"),
    [
        (r"shop\..*", "", "shop", True),
        (r"shop\..*", "", "other", False),
        (r"^shop\.orders$", "", "shop", True),
        (r"shop.orders", "", "other", False),
        (r"shop\..*", "", "sho", False),
        (r"shop?\..*", "", "sho", True),
        (r"shop\d+\..*", "", "other", False),
        (r"shop\d+\..*", "", "shop7", True),
        (r"shop\..*|other\.t", "", "other", True),
        (r"(shop|other)\..*", "", "other", True),
        (r"[so]hop\..*", "", "ohop", True),
        (r".*\..*", "", "percona", True),
        (r".*\..*", r"percona\..*", "percona", False),
        (r".*\..*", r"perc.*\..+", "percona", False),
        (r".*\..*", r"percona\.checksums", "percona", True),
        (r".*\..*", r"percona\..*_old", "percona", True),
        (r".*\..*", "", "mysql", False),
        (r"mysql\.rds_.*", "", "mysql", True),
        (r"SHOP\..*", "", "Shop", True),
    ],
)
def test_a_database_holds_no_captured_table_only_where_that_is_certain(
    include: str, black: str, database: str, may: bool
) -> None:
    assert TableFilter(include, black).may_capture_of(database) is may


@pytest.mark.parametrize(
    ("include", "databases"),
    [
        (r"shop\.orders,^shop\.(a|b)$,crm.t", []),
        (r"shop\.orders,Crm\.t_.*", ["crm"]),
        (r"shop\.orders,.*\.t", None),
        (r"shop\.a|crm\.b", None),
        ("", []),
    ],
)
def test_databases_of_which_the_filter_does_not_spell_out_all_tables(
    include: str, databases: list[str] | None
) -> None:
    assert open_databases(include) == databases
