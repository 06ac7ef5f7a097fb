"""When a run looks for tables that its account may not see, what it shows of them, and when it restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.destination.plan import SnapshotPlan
from app.worker.destination.snapshot import unseen_tables
from app.worker.destination.snapshot.unseen_tables import UnseenTables
from connectors.errors import RunRestarts
from connectors.mysql.ddl.definition import TableName
from connectors.mysql.schema.unseen_tables import Sight
from connectors.mysql.server.privileges import Privileges
from tables.rules.routes.routes import Routes
from tables.state.journal.state import DestinationState
from tests.unit.connectors.mysql.facts import ADDRESS, facts
from tests.unit.tables.made import ORDERS, begun

ONE_TABLE = ("GRANT SELECT ON `shop`.`orders` TO `a`@`%`",)
ITS_DATABASE = ("GRANT SELECT ON `shop`.* TO `a`@`%`",)
NEW: TableName = ("shop", "new")


def began(
    include: str, grants: Iterable[str], names: Iterable[TableName] = (ORDERS,)
) -> UnseenTables:
    """Those of a run at whose beginning the account had these grants, and saw these tables."""
    plan: Any = SimpleNamespace(
        name="shop",
        snapshot=SnapshotPlan(is_initial=True),
        rules=SimpleNamespace(routes=Routes(prefix="aq", include=include)),
    )
    led: Any = SimpleNamespace(
        address=ADDRESS,
        facts=facts(grants=tuple(grants)),
        names=frozenset(names),
        opened=SimpleNamespace(is_partial=False, history=begun("orders")),
        state=DestinationState("shop"),
    )
    return UnseenTables(plan, led, is_known=lambda name: name == ORDERS)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> list[Sight]:
    """What the account sees at each further look, the last of these at all later ones."""
    seen: list[Sight] = []
    monkeypatch.setattr(
        unseen_tables, "sight_now", lambda *_: seen.pop(0) if len(seen) > 1 else seen[0]
    )
    monkeypatch.setattr(unseen_tables, "LOOK_SECONDS", 0)
    return seen


def look(unseen: UnseenTables) -> None:
    asyncio.run(unseen.look({}))


@pytest.mark.parametrize("include", [r"shop\.orders", r"^shop\.(orders|items)$", "shop.orders"])
def test_an_account_that_sees_all_that_the_filter_names_lacks_nothing(
    include: str, server: list[Sight]
) -> None:
    unseen = began(include, (*ONE_TABLE, "GRANT SELECT ON `shop`.`items` TO `a`@`%`"))
    assert (unseen.scopes, unseen.warnings) == (0, [])
    # The server is not asked: there is no answer.
    assert not server
    look(unseen)


def test_a_database_with_tables_that_the_filter_does_not_name_is_shown_with_its_grant() -> None:
    unseen = began(r"shop\.orders,shop\.part_.*,crm\.(a|b)", ONE_TABLE)
    assert unseen.scopes == 1
    (warning,) = unseen.warnings
    assert "GRANT SELECT ON `shop`.* TO" in warning
    assert began(r"shop\.orders,shop\.part_.*", ITS_DATABASE).warnings == []
    # The account may be meant to see no other databases than theirs.
    anywhere = began(r".*\..*", ITS_DATABASE)
    assert anywhere.scopes == 0
    assert "GRANT SELECT ON *.* TO" in anywhere.warnings[0]


def test_a_table_that_the_grants_at_the_beginning_covered_was_created_since(
    server: list[Sight],
) -> None:
    """Its statement is on its way, however long that takes."""
    unseen = began(r".*\..*", ITS_DATABASE)
    server.append(Sight((ORDERS, NEW), Privileges(ITS_DATABASE), "'a'@'%'"))
    for _ in range(3):
        look(unseen)


def test_one_that_is_granted_since_is_read_by_a_new_run(server: list[Sight]) -> None:
    unseen = began(r".*\..*", ONE_TABLE)
    granted = Privileges((*ONE_TABLE, "GRANT SELECT ON `shop`.`new` TO `a`@`%`"))
    server.append(Sight((ORDERS, NEW), granted, ""))
    look(unseen)
    with pytest.raises(RunRestarts, match=r"may see now: shop\.new"):
        look(unseen)
