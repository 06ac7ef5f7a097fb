"""Tables that have failed or are paused, and that a statement drops or renames."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.entered_tables import EnteredTables
from app.worker.destination.commit.gone_tables import GoneTables
from app.worker.destination.commit.participants import Commits
from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from connectors.mysql.ddl.definition import Server, TableName
from connectors.mysql.ddl.online import ShadowRules
from tables.history.history import SchemaHistory
from tables.state.snapshots.request import SnapshotAction, SnapshotRequest
from tables.state.snapshots.snapshot_progress import SnapshotState, TableSnapshot, gone, unreadable
from tests.unit.app.worker.destination.commit.made import BEFORE, piece
from tests.unit.tables.made import UTF8, applied, between, table

MARIADB = Server(version=(10, 11, 6), mariadb=True)
FAILED = replace(unreadable("shop", ("shop", "items"), "it has no key", request="r1"), rows=7)
PAUSED = replace(FAILED, state=SnapshotState.PAUSED, error=None)
TABLES = ("items", "other", "_items_new", "__osc_new_items", "x_load")


def begun() -> SchemaHistory:
    history = SchemaHistory()
    history.init("shop")
    names: list[TableName] = [("shop", name) for name in TABLES]
    tables = dict.fromkeys([*names, ("hidden", "t")], table())
    history.baseline(tables, {"shop": UTF8, "hidden": UTF8}, between(100), MARIADB)
    return history


def captures(name: TableName) -> bool:
    return name[0] == "shop" and not name[1].endswith("_load")


class Scene:
    """The statements of a stream, and the states of tables meanwhile; by table."""

    def __init__(self, *known: TableSnapshot, can_replace: bool = True) -> None:
        self.history = begun()
        self.states = {one.name: one for one in known}
        self.requests: list[SnapshotRequest] = []
        self.started: list[str] = []
        self.shown: list[TableSnapshot] = []
        shadows = ShadowRules()

        def captured(number: int | None) -> list[TableName]:
            found = self.history.after(number or 0).tables()
            return [one for one in found if captures(one) and shadows.shadow(one, found) is None]

        tables = ReadTables(
            destination="shop",
            captured=captured,
            snapshots=self.states,
            requests=lambda: self.requests,
        )
        self._parts = Commits(
            (
                RenamedTables(tables, can_replace=lambda _: can_replace),
                GoneTables(
                    tables=tables,
                    shadows=shadows,
                    can_replace=lambda _: can_replace,
                    show=self._show,
                ),
                EnteredTables(
                    tables=tables,
                    captures=captures,
                    is_mapped=lambda _: False,
                    shadows=shadows,
                    can_replace=lambda _: can_replace,
                    is_read=False,
                    show=self._show,
                ),
            )
        )

    def run(self, *statements: str, is_apart: bool = False) -> dict[str, dict[str, Any]]:
        """Publish statements in one piece, or each in its own; return the last record of each table's state.

        The reader's thread has reached the last statement before the first piece is committed.
        """
        first = 200 + 100 * len(self.history.records)
        records = [
            applied(self.history, first + 100 * number, one)
            for number, one in enumerate(statements)
        ]
        noted: dict[str, dict[str, Any]] = {}
        for some in [[record] for record in records] if is_apart else [records]:
            given = piece()
            given.tables.history += some
            shown = len(self.shown)
            self._parts.before(given, BEFORE)
            assert len(self.shown) == shown, "nothing is shown before the commit"
            for key, value in given.notes:
                kind, _, _, name = key.decode().split("/")
                if kind == "snapshot":
                    noted[name] = orjson.loads(value)
                else:
                    self.started.append(name)
            self._parts.committed(given, BEFORE)
        return noted

    def state(self, name: str) -> str:
        return self.states["shop", name].state.value

    def _show(self, one: TableSnapshot) -> None:
        self.states[one.name] = one
        self.shown.append(one)


@pytest.mark.parametrize("one", [FAILED, PAUSED])
@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TABLE items",),
        ("DROP DATABASE shop",),
        ("DROP TABLE items", "CREATE TABLE items (id int)"),
        ("CREATE OR REPLACE TABLE items (id int)",),
        ("DROP TABLE items", "RENAME TABLE hidden.t TO shop.u"),
        ("RENAME TABLE items TO hidden.items",),
        ("RENAME TABLE items TO items_load",),
        ("RENAME TABLE items TO items_2", "DROP TABLE items_2"),
    ],
)
@pytest.mark.parametrize("is_apart", [False, True])
def test_it_ends_with_the_statement_that_takes_the_table_away(
    statements: tuple[str, ...], one: TableSnapshot, *, is_apart: bool
) -> None:
    scene = Scene(one)
    noted = scene.run(*statements, is_apart=is_apart)
    assert scene.state("items") == "gone"
    found = noted["items"]
    assert (found["state"], found["error"], found["request"]) == ("gone", None, "r1")
    # What was read of it, and when, is as it was.
    assert (found["rows"], found["ts_ms"]) == (7, one.ts_ms)
    assert {name: state["state"] for name, state in noted.items() if name != "items"} in (
        {},
        {"u": "failed"},
        {"items_2": "gone"},
    )


@pytest.mark.parametrize("state", [SnapshotState.DONE, SnapshotState.STOPPED, SnapshotState.GONE])
def test_what_has_ended_is_left_as_it_is(state: SnapshotState) -> None:
    scene = Scene(replace(FAILED, state=state, error=None))
    assert scene.run("DROP TABLE items", "CREATE TABLE items (id int)") == {}


def test_statements_of_other_tables_change_nothing() -> None:
    scene = Scene(FAILED)
    assert (
        scene.run(
            "ALTER TABLE items ADD v int",
            "DROP TABLE other",
            "TRUNCATE TABLE items",
            "RENAME TABLE items TO a",
            "RENAME TABLE a TO items",
        )
        == {}
    )
    assert scene.shown == []


def test_a_table_of_a_later_piece_that_is_made_again_has_nothing_of_the_one_before() -> None:
    scene = Scene(FAILED)
    scene.run("DROP TABLE items")
    scene.run("CREATE TABLE items (id int)")
    scene.run("RENAME TABLE items TO _items_old, _items_new TO items")
    assert scene.state("items") == "gone"


def test_a_mark_that_was_not_applied_yet_is_not_applied_to_the_next_table_of_that_name() -> None:
    scene = Scene(replace(FAILED, state=SnapshotState.DONE, error=None))
    mark = SnapshotRequest(
        destination="shop", database="shop", table="items", id="m", action=SnapshotAction.MARK,
        by="EXCHANGE PARTITION", why="it changed rows", ts_ms=1,
    )  # fmt: skip
    scene.requests.append(mark)
    noted = scene.run("DROP TABLE items")
    assert (noted["items"]["state"], noted["items"]["request"]) == ("gone", "m")


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize(
    ("statements", "states"),
    [
        (["RENAME TABLE items TO items_2"], {"items": "gone", "items_2": "failed"}),
        (
            ["RENAME TABLE items TO a", "RENAME TABLE a TO items_2"],
            {"items": "gone", "items_2": "failed", "a": "gone"},
        ),
        (
            ["RENAME TABLE items TO a, other TO items, a TO other"],
            {"items": "gone", "other": "failed"},
        ),
        (
            ["RENAME TABLE items TO items_2", "CREATE TABLE items (id int)"],
            {"items": "gone", "items_2": "failed"},
        ),
        # The table that takes the name has rows that are in no topic.
        (
            ["RENAME TABLE items TO items_2, x_load TO items"],
            {"items": "failed", "items_2": "failed"},
        ),
    ],
)
def test_a_table_that_has_failed_is_failed_by_its_new_name_alone(
    statements: list[str], states: dict[str, str], *, is_apart: bool
) -> None:
    scene = Scene(FAILED)
    scene.run(*statements, is_apart=is_apart)
    if not is_apart:
        # Between the two statements it has that name.
        states = {name: state for name, state in states.items() if name != "a"}
    assert {name: one.state.value for (_, name), one in scene.states.items()} == states
    for (_, name), one in scene.states.items():
        if one.state is SnapshotState.FAILED:
            assert f"Run: python -m app snapshot start shop shop.{name} --replace" in str(one.error)


def test_two_that_change_names_are_failed_still() -> None:
    scene = Scene(FAILED, replace(FAILED, table="other"))
    scene.run("RENAME TABLE items TO a, other TO items, a TO other")
    assert (scene.state("items"), scene.state("other")) == ("failed", "failed")
    errors = {name: one.error or "" for (_, name), one in scene.states.items()}
    assert errors["items"].startswith("renamed from shop.other, whose existing rows are not")


def test_one_of_which_some_rows_are_read_is_failed_by_its_new_name_and_read_there() -> None:
    read = replace(FAILED, state=SnapshotState.READING, where="id < 9", unlogged="why", error=None)
    scene = Scene(read)
    scene.run("RENAME TABLE items TO items_2")
    assert (scene.state("items"), scene.state("items_2")) == ("reading", "failed")
    assert scene.started == ["items_2"]


def test_one_of_which_a_reading_of_some_rows_was_stopped_is_failed_by_its_new_name() -> None:
    stopped = replace(
        FAILED, state=SnapshotState.STOPPED, where="id < 9", unlogged="why", error=None
    )
    scene = Scene(stopped)
    scene.run("RENAME TABLE items TO items_2")
    assert (scene.state("items"), scene.state("items_2")) == ("stopped", "failed")
    assert scene.started == []


def test_a_paused_one_that_is_renamed_is_read_by_its_new_name_and_paused_under_none() -> None:
    scene = Scene(PAUSED)
    scene.run("RENAME TABLE items TO items_2")
    assert (scene.state("items"), scene.started) == ("gone", ["items_2"])


CUT_OVERS = (
    ("RENAME TABLE items TO _items_old, _items_new TO items",),
    ("ALTER TABLE items RENAME __osc_old_items", "ALTER TABLE __osc_new_items RENAME items"),
    ("DROP TABLE items", "RENAME TABLE _items_new TO items"),
)


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.parametrize("statements", CUT_OVERS)
def test_a_copy_of_the_table_that_takes_its_name_has_failed_as_well(
    statements: tuple[str, ...], *, is_apart: bool
) -> None:
    scene = Scene(FAILED)
    scene.run(*statements, is_apart=is_apart)
    one = scene.states["shop", "items"]
    assert (one.state.value, one.rows) == ("failed", 7)
    assert (one.error or "").startswith("it has no key")
    # The tool's old table is published under no name, so nothing would ever read it.
    assert [name for (_, name), each in scene.states.items() if each.is_missing] == ["items"]


def test_a_copy_of_a_table_that_is_not_captured_any_more_is_not_shown() -> None:
    scene = Scene(gone(replace(FAILED, table="x_load")))
    scene.run("CREATE TABLE _x_load_new LIKE other", "DROP TABLE x_load")
    assert scene.run("RENAME TABLE _x_load_new TO x_load") == {}


def test_a_copy_of_a_paused_table_is_failed_with_the_command_that_reads_it() -> None:
    # Under the old name nothing is left to resume.
    scene = Scene(PAUSED, can_replace=False)
    scene.run("DROP TABLE items", is_apart=True)
    scene.run("RENAME TABLE _items_new TO items")
    one = scene.states["shop", "items"]
    assert one.state is SnapshotState.FAILED
    assert one.error == (
        "its existing rows were not all read when the table was dropped or renamed. "
        "Run: python -m app snapshot start shop shop.items"
    )
