"""An account's privileges, from SHOW GRANTS of servers of each series."""

import pytest

from connectors.mysql.server.privileges import Privileges, inactive_roles, remedy
from tests.unit.connectors.mysql.facts import facts

OLD = "GRANT SELECT, REPLICATION SLAVE ON *.* TO 'a'@'%' IDENTIFIED BY PASSWORD '*D4EA'"


@pytest.mark.parametrize(
    "grant",
    [
        OLD,
        "GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION",
        "GRANT SELECT ON `shop`.* TO `a`@`%`",
        "GRANT INSERT, SELECT ON `shop`.`orders` TO `a`@`%`",
        "GRANT SELECT ON `sh%`.* TO `a`@`%`",
        "GRANT SELECT ON `s_op`.* TO `a`@`%`",
        "GRANT SELECT (`id`), SELECT, INSERT (`id`) ON `shop`.`orders` TO `a`@`%`",
    ],
)
def test_a_table_is_seen_whole_by_a_privilege_at_any_level(grant: str) -> None:
    sight = Privileges(["GRANT USAGE ON *.* TO `a`@`%`", grant])
    assert sight.covers(("shop", "orders"))
    assert ("shop", "orders") not in sight.in_part
    assert not sight.is_nothing


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT REPLICATION SLAVE, SHOW DATABASES ON *.* TO `a`@`%`",
        "GRANT INSERT ON *.* TO `a`@`%`",
        r"GRANT SELECT ON `s\_op`.* TO `a`@`%`",
        "GRANT SELECT ON `shop2`.* TO `a`@`%`",
        "GRANT SELECT ON `shop`.`order` TO `a`@`%`",
        "GRANT EXECUTE ON PROCEDURE `shop`.`orders` TO `a`@`%`",
        "GRANT PROXY ON ''@'' TO 'a'@'%'",
        "GRANT `reader`@`%` TO `a`@`%`",
    ],
)
def test_other_privileges_show_nothing_of_it(grant: str) -> None:
    assert not Privileges([grant]).covers(("shop", "orders"))


def test_with_partial_revokes_a_grants_database_is_literal() -> None:
    grants = ("GRANT SELECT ON `a_b`.* TO `a`@`%`", r"GRANT SELECT ON `c\_d%`.* TO `a`@`%`")
    for variables, is_literal in (({}, False), ({"partial_revokes": "ON"}, True)):
        sight = facts(variables, grants=grants).privileges
        assert sight.covers(("a_b", "t"))
        assert sight.covers(("axb", "t")) is not is_literal
        # A backslash then escapes nothing.
        assert sight.covers((r"c\_d%", "t")) is is_literal
        assert sight.covers(("c_d2", "t")) is not is_literal
        assert not sight.covers(("cxd%", "t"))


def test_what_is_revoked_of_all_is_not_seen() -> None:
    sight = Privileges(["GRANT SELECT ON *.* TO `a`@`%`", "REVOKE SELECT ON `shop`.* FROM `a`@`%`"])
    assert not sight.covers(("shop", "orders"))
    assert sight.covers(("other", "orders"))


def test_a_table_of_which_columns_are_granted_may_lack_others() -> None:
    name = ("shop", "orders")
    in_part = "GRANT SELECT (`id`, `a,b`), UPDATE (`id`) ON `shop`.`orders` TO `a`@`%`"
    assert name in Privileges([in_part]).in_part
    assert not Privileges([in_part]).covers(name)
    assert name not in Privileges([in_part, "GRANT INSERT ON `shop`.* TO `a`@`%`"]).in_part
    assert name not in Privileges([in_part, OLD]).in_part


def test_names_are_quoted_as_the_server_quotes_them() -> None:
    sight = Privileges(["GRANT SELECT ON `a``b`.`c``d` TO `a`@`%`"])
    assert sight.covers(("a`b", "c`d"))
    assert remedy(("a`b", "c"), "'c'@'%'") == "GRANT SELECT ON `a``b`.`c` TO 'c'@'%';"


def test_an_account_that_may_read_nothing_is_distinguished() -> None:
    assert Privileges(["GRANT REPLICATION SLAVE ON *.* TO `a`@`%`"]).is_nothing
    assert Privileges(["GRANT SELECT (`id`) ON `shop`.`orders` TO `a`@`%`"]).is_nothing


@pytest.mark.parametrize(
    "grants",
    [
        ["GRANT SELECT (`id`) ON `a b`.`x``y` TO `a`@`%`", "GRANT SELECT ON `order`.* TO `a`@`%`"],
        ['GRANT SELECT ("id") ON "a b"."x`y" TO "a"@"%"', 'GRANT SELECT ON "order".* TO "a"@"%"'],
        ["GRANT SELECT (id) ON `a b`.`x``y` TO a@`%`", "GRANT SELECT ON `order`.* TO a@`%`"],
    ],
    ids=["backticks", "ANSI_QUOTES", "where they are demanded"],
)
def test_names_are_read_in_each_form_of_quotes(grants: list[str]) -> None:
    sight = Privileges(grants)
    assert sight.in_part == {("a b", "x`y")}
    assert sight.covers(("order", "any"))


@pytest.mark.parametrize("quoted", ['"shop"."orders"', "shop.orders", "`shop`.orders"])
def test_a_table_is_read_in_each_form_of_quotes(quoted: str) -> None:
    assert Privileges([f"GRANT SELECT ON {quoted} TO a@`%`"]).covers(("shop", "orders"))
    assert Privileges(["GRANT SELECT ON shop.* TO a@`%`"]).covers(("shop", "orders"))
    assert Privileges(["GRANT SELECT ON *.* TO a@`%`"]).covers(("shop", "orders"))


@pytest.mark.parametrize(
    "columns",
    [
        "(`b), SELECT, INSERT (c`)",
        '("b), SELECT, INSERT (c")',
        # MySQL 5.7 quotes no columns: these may be two of them, or one.
        "(b), SELECT, INSERT (c)",
        "(`x) ON `other`.* TO `a`@`%`)",
    ],
)
def test_the_name_of_a_column_grants_nothing(columns: str) -> None:
    sight = Privileges([f"GRANT SELECT {columns} ON `shop`.`orders` TO 'a'@'%'"])
    assert ("shop", "orders") in sight.in_part
    assert not sight.covers(("shop", "orders"))
    assert not sight.covers(("other", "any"))


@pytest.mark.parametrize(
    ("grants", "active", "inactive"),
    [
        ([OLD], "", []),
        (["GRANT `r`@`%`,`s`@`h` TO `a`@`%`"], "NONE", ["`r`@`%`", "`s`@`h`"]),
        (["GRANT `r`@`%`,`s`@`h` TO `a`@`%` WITH ADMIN OPTION"], "`s`@`h`", ["`r`@`%`"]),
        (['GRANT "r"@"%" TO "a"@"%"'], "`r`@`%`", []),
        (["GRANT r@`%` TO a@`%`"], "NONE", ["r@`%`"]),
        (["GRANT `r` TO `a`@`%`", "GRANT `s` TO `a`@`%`"], "r", ["`s`"]),
        (["GRANT `r` TO `a`@`%`"], "", ["`r`"]),
        # MariaDB: a role of the active role is in effect.
        (["GRANT `r` TO `a`@`%`", "GRANT `s` TO `r`"], "r", []),
        (["GRANT r TO a@`%`", 'GRANT s TO "a@b"', "GRANT t TO s"], "r", []),
    ],
)
def test_roles_that_are_granted_and_not_active_are_known(
    grants: list[str], active: str, inactive: list[str]
) -> None:
    assert inactive_roles(grants, active) == inactive
