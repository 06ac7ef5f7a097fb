"""What an account sees of a server's tables, by its grants and by what the server lists."""

from __future__ import annotations

import pytest

from connectors.mysql.schema.unseen_tables import Sight
from connectors.mysql.server.privileges import Privileges

GRANTS = (
    "GRANT REPLICATION SLAVE ON *.* TO `a`@`%`",
    "GRANT SELECT ON `shop`.`seen` TO `a`@`%`",
    "GRANT SELECT (`id`) ON `shop`.`part` TO `a`@`%`",
    "GRANT DELETE ON `shop`.`bare` TO `a`@`%`",
    "GRANT SELECT ON `whole`.* TO `a`@`%`",
)
NAMES = [("shop", one) for one in ("seen", "part", "bare", "byrole")]


def sight(*described: str) -> Sight:
    return Sight(
        NAMES, Privileges(GRANTS), "'a'@'%'", described={("shop", one) for one in described}
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (("shop", "seen"), None),
        (("shop", "byrole"), None),
        (("whole", "dropped"), None),
        # A filter that matches a table in another case.
        (("Shop", "SEEN"), None),
        (("shop", "part"), "only some of its columns may be seen: GRANT SELECT ON `shop`.`part`"),
        (("shop", "bare"), "none of its columns may be seen: GRANT SELECT ON `shop`.`bare`"),
        (("shop", "hidden"), "the account may not see it: GRANT SELECT ON `shop`.`hidden`"),
    ],
)
def test_why_a_table_is_not_seen(name: tuple[str, str], why: str | None) -> None:
    found = sight("seen", "part", "byrole").why_unseen(name)
    assert (found is None) if why is None else (found or "").startswith(why)


def test_the_grants_that_would_show_all_tables() -> None:
    grant = "GRANT SELECT ON {} TO 'a'@'%';"
    assert sight().lacking(["shop", "whole"]) == [grant.format("`shop`.*")]
    assert sight().lacking([]) == [grant.format("*.*")]
    everything = Sight((), Privileges(["GRANT SELECT ON *.* TO `a`@`%`"]), "'a'@'%'")
    assert sight().lacking(["a_b"]) == [grant.format(r"`a\_b`.*")]
    literal = Sight((), Privileges((), is_literal=True), "'a'@'%'")
    assert literal.lacking(["a_b"]) == [grant.format("`a_b`.*")]
    assert everything.lacking([]) == everything.lacking(["shop"]) == []


def test_a_name_is_spelled_as_the_server_has_it() -> None:
    assert sight().spelled(("Shop", "Orders")) == ("Shop", "Orders")
    lower = Sight((), Privileges(()), "'a'@'%'", lowers=True)
    assert lower.spelled(("Shop", "Orders")) == ("shop", "orders")
