"""The tables that a run begins to read: captured ones that its history has, or that wait for a grant."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.destination.plan import SnapshotPlan
from app.worker.destination.takeover.initial_snapshots import gone_snapshots, snapshots_of_run
from tables.rules.routes.routes import Routes
from tables.state.journal.state import DestinationState
from tables.state.snapshots.snapshot_progress import SnapshotState, requested, unreadable
from tests.unit.app.operator.journals import cursor
from tests.unit.connectors.mysql.facts import ADDRESS, facts
from tests.unit.tables.made import ORDERS, UTF8, applied, begun, between, table
from tests.unit.tables.made import SERVER as VERSION

SERVER = frozenset({ORDERS, ("shop", "part"), ("shop", "late"), ("other", "t")})
"""The server's tables: one of which only a column is granted, one that was created since, one not captured."""
PARTS = ("shop`.`part", "shop`.`dropped", "other`.`t")
IN_PART = tuple(f"GRANT SELECT (`id`) ON `{one}` TO `a`@`%`" for one in PARTS)


def snapshots(
    *found: str,
    grants: tuple[str, ...] = IN_PART,
    include: str = r"shop\..*",
    missed: bool = False,
    statements: tuple[str, ...] = (),
    is_set: bool = False,
    state: DestinationState | None = None,
    variables: dict[str, str] | None = None,
    **plan_of: Any,
) -> dict[str, bool]:
    """The tables to read, and whether they are replaced; ``found``: those that the history takes in now, after
    these ``statements``; ``is_set``: whether an operator has set the cursor before."""
    history = begun("orders")
    if is_set:
        history.baseline({}, {"shop": UTF8}, between(150), VERSION)
    for number, one in enumerate(statements):
        applied(history, 200 + 100 * number, one)
    at = between(200 + 100 * len(statements))
    history.add_baseline({("shop", one): table() for one in found}, {}, at)
    plan: Any = SimpleNamespace(
        name="shop",
        snapshot=SnapshotPlan(**{"is_initial": True, **plan_of}),
        rules=SimpleNamespace(routes=Routes(prefix="aq", include=include)),
    )
    opened: Any = SimpleNamespace(history=history, found=frozenset(("shop", one) for one in found))
    begin = snapshots_of_run(
        plan,
        state or DestinationState("shop"),
        opened,
        (ADDRESS, facts(variables, grants=grants)),
        missed=missed,
        names=SERVER,
    )
    return {one.table: one.replaces for one in begin}


def resumed(*read: str) -> DestinationState:
    """The state of a destination that has begun, and has read these tables."""
    state = DestinationState("shop")
    state.cursor = cursor()
    state.snapshots.add(requested("shop", [("shop", one) for one in read], name="1", now_ms=1))
    return state


@pytest.mark.parametrize("missed", [False, True])
def test_one_that_is_granted_in_part_is_not_left_out(missed: bool) -> None:
    assert snapshots("part", missed=missed) == {"orders": missed, "part": missed}


def test_without_a_mode_none_is_read() -> None:
    assert snapshots("part", is_initial=False) == {}


@pytest.mark.parametrize("include", [r"shop\.orders,^shop\.hidden$", r"shop.(orders|hidden)"])
@pytest.mark.parametrize("missed", [False, True])
def test_one_that_may_not_be_seen_waits_if_the_filter_names_it(include: str, missed: bool) -> None:
    assert snapshots(include=include, missed=missed) == {"orders": missed, "hidden": missed}
    granted = ("GRANT SELECT ON `shop`.* TO `a`@`%`",)
    if include.startswith("shop.("):
        upper = {"lower_case_table_names": "1"}
        assert "hidden" in snapshots(include="SHOP.(ORDERS|HIDDEN)", variables=upper)
    assert snapshots(include=include, missed=missed, grants=granted) == {"orders": missed}
    # A filter's case is not that of names.
    assert snapshots(include=r"SHOP\.Orders", missed=missed) == {"orders": missed}


def test_once_it_may_be_seen_it_is_read_and_none_is_read_twice() -> None:
    assert snapshots("late", state=resumed("orders")) == {"late": False}
    assert snapshots("late", state=resumed("orders", "late")) == {}
    assert snapshots("late", state=resumed("orders"), is_initial=False) == {}
    # What existed at the first start, and was published since, is still to be read.
    state = resumed("orders")
    state.versions["shop", "late"] = cast(Any, None)
    assert snapshots("late", state=state) == {"late": False}


def test_rows_of_the_stream_name_a_table_that_may_not_be_seen() -> None:
    state = resumed("orders")
    state.versions["shop", "streamed"] = cast(Any, None)
    assert snapshots(state=state) == {"streamed": False}
    granted = ("GRANT SELECT ON *.* TO `a`@`%`",)
    assert snapshots(state=state, grants=granted) == {}


TORN = "ADD CHECK (unknown_function() + ) x"


@pytest.mark.parametrize(
    ("statements", "read"),
    [
        ((f"CREATE TABLE late (id int, {TORN[4:]})",), False),
        (("CREATE TABLE late LIKE hidden",), False),
        (("CREATE TABLE late (id int)", f"ALTER TABLE late {TORN}"), False),
        (
            ("CREATE TABLE a (id int)", "RENAME TABLE a TO late", f"ALTER TABLE late {TORN}"),
            False,
        ),
        # These may have had rows that the account could not see.
        ((f"ALTER TABLE late {TORN}",), True),
        (("CREATE TABLE IF NOT EXISTS late LIKE hidden",), True),
        (("RENAME TABLE hidden TO late",), True),
        (
            ("CREATE TABLE late (id int)", "RENAME TABLE late TO a, hidden TO late"),
            True,
        ),
        (
            ("CREATE TABLE late (id int)", "DROP TABLE late", f"ALTER TABLE late {TORN}"),
            True,
        ),
    ],
)
def test_one_whose_definition_was_lost_is_not_read_if_all_its_rows_were_changes(
    statements: tuple[str, ...], read: bool
) -> None:
    state = resumed("orders")
    state.versions["shop", "late"] = cast(Any, None)
    wanted = {"late": False} if read else {}
    assert snapshots("late", statements=statements, state=state) == wanted


def test_one_that_an_alter_has_lost_since_the_first_start_is_not_read() -> None:
    state = resumed()
    assert snapshots("orders", statements=(f"ALTER TABLE orders {TORN}",), state=state) == {}


def test_a_cursor_that_was_set_does_not_repeat_the_rows_of_published_tables() -> None:
    state = resumed("orders")
    state.versions["shop", "late"] = cast(Any, None)
    assert snapshots("orders", "late", "new", is_set=True, state=state) == {"new": False}


@pytest.mark.parametrize("kind", [SnapshotState.FAILED, SnapshotState.PAUSED])
def test_a_state_ends_whose_table_is_gone_though_no_statement_of_the_stream_has_ended_it(
    kind: SnapshotState,
) -> None:
    history = begun("orders", "dropped", "torn")
    applied(history, 200, "DROP TABLE dropped")
    applied(history, 300, "ALTER TABLE torn ADD CHECK (unknown_function() + ) x")
    state = DestinationState("shop")
    state.snapshots.add(
        replace(unreadable("shop", ("shop", name), "it has no key", request="r"), state=kind)
        for name in ("orders", "dropped", "torn", "never", "late", "hidden")
    )
    state.snapshots.add(
        [replace(unreadable("shop", ("shop", "other"), "why"), state=SnapshotState.DONE)]
    )

    def found(grants: tuple[str, ...], names: frozenset[tuple[str, str]]) -> list[str]:
        opened: Any = SimpleNamespace(history=history)
        ended = gone_snapshots(state, opened, (ADDRESS, facts(None, grants=grants)), names)
        assert {one.state for one in ended} <= {SnapshotState.GONE}
        assert {one.request for one in ended} <= {"r"}
        return [one.table for one in ended]

    whole = ("GRANT SELECT ON `shop`.* TO `a`@`%`",)
    assert found(whole, SERVER) == ["dropped", "hidden", "never"]
    # What the account may not see may exist; so may anything if the names are not known.
    assert found(("GRANT SELECT ON `shop`.`never` TO `a`@`%`",), SERVER) == ["dropped", "never"]
    assert found(whole, frozenset()) == ["dropped"]


def test_without_a_history_no_table_is_known_to_be_gone() -> None:
    state = DestinationState("shop")
    state.snapshots.add([unreadable("shop", ORDERS, "it has no key")])
    opened: Any = SimpleNamespace(history=None)
    assert gone_snapshots(state, opened, (ADDRESS, facts()), SERVER) == []
