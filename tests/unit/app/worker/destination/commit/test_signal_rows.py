"""Rows of the signal table: which tables a row concerns at its position, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from app.worker.destination.commit.participants import Commits
from app.worker.destination.commit.read_tables import ReadTables
from app.worker.destination.commit.renamed_tables import RenamedTables
from app.worker.destination.commit.signal_rows import SignalRows
from app.worker.pipeline.piece import SignalRow
from tables.state.snapshots.snapshot_progress import Name, SnapshotState, TableSnapshot
from tests.unit.app.worker.destination.commit.made import BEFORE, piece
from tests.unit.tables.made import applied, begun

READING = TableSnapshot(
    destination="shop", database="shop", table="t", id="1", state=SnapshotState.READING
)
PAUSED = replace(READING, table="u", state=SnapshotState.PAUSED)
AFTER = f"shop: a signal after {BEFORE.offset.coordinates}"


def row(*tables: str, kind: str = "execute", name: str = "secret") -> str:
    data = orjson.dumps({"data-collections": [f"shop.{one}" for one in tables]}).decode()
    return orjson.dumps({"id": name, "type": f"{kind}-snapshot", "data": data}).decode()


class Scene:
    """A destination with some tables, and the requests of its signals and statements."""

    def __init__(self, *tables: str, snapshots: tuple[TableSnapshot, ...] = ()) -> None:
        self.history = begun(*tables)
        self.states: dict[Name, TableSnapshot] = {one.name: one for one in snapshots}
        tables_of = ReadTables(
            destination="shop",
            captured=lambda number: self.history.after(number or 0).tables(),
            snapshots=self.states,
        )
        renamed = RenamedTables(tables_of, can_replace=lambda _: True)
        self._commits = Commits((SignalRows(tables_of), renamed))

    def publish(self, *rows_and_statements: str) -> list[str]:
        """Publish one piece of rows of the signal table and statements; return the tables of the requests."""
        given: Any = piece()
        for one in rows_and_statements:
            later = piece()
            if one.startswith("{"):
                later.signals = [SignalRow(one)]
            else:
                at = 200 + 100 * len(self.history.records)
                later.tables.history = [applied(self.history, at, one)]
            given.absorb(later)
        given.notes = []
        self._commits.before(given, BEFORE)
        self._commits.committed(given, BEFORE)
        return [orjson.loads(value)["table"] for _, value in given.notes]


def test_a_start_says_which_tables_it_leaves_out_as_their_rows_are_being_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene("t", "u", "v", snapshots=(READING, PAUSED))
    assert scene.publish(row("t", "u", "v")) == ["v"]
    assert caplog.messages == [
        f"{AFTER} (start) leaves out shop.t: existing rows are being read already",
        (
            f"{AFTER} (start) leaves out shop.u: the reading of existing rows is paused, so continue it with "
            "`snapshot resume`, or end it with `snapshot stop`, first"
        ),
    ]
    caplog.clear()
    # That one was not applied yet.
    assert scene.publish(row("v", name="again")) == []
    assert caplog.messages == [
        f"{AFTER} (start) leaves out shop.v: existing rows are about to be read already"
    ]


def test_a_pause_says_which_tables_it_leaves_out_as_their_reading_has_yet_to_begin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene("t", "v", snapshots=(READING,))
    assert scene.publish(row("v"), row("t", "v", kind="pause")) == ["v", "t"]
    assert caplog.messages == [
        f"{AFTER} (pause) leaves out shop.v: the reading of existing rows has yet to begin"
    ]


def test_many_tables_are_not_all_named(caplog: pytest.LogCaptureFixture) -> None:
    tables = [f"t{number:02}" for number in range(12)]
    read = tuple(replace(READING, table=one) for one in tables)
    assert Scene(*tables, snapshots=read).publish(row("t.*")) == []
    (said,) = caplog.messages
    assert "leaves out shop.t00, shop.t01, " in said
    assert "shop.t09 and 2 more: existing rows are being read already" in said


def test_an_expression_that_concerns_no_table_is_named_by_its_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene("t", "u", snapshots=(READING,))
    assert scene.publish(row("u", "hush", "t", "x.*")) == ["u"]
    assert caplog.messages[:1] == [
        f"{AFTER} (start): of the expressions in its data, numbers 2 and 4 concern no table"
    ]
    caplog.clear()
    assert scene.publish(row("hush")) == []
    assert caplog.messages == [f"{AFTER} (start) concerns no table"]
    assert "secret" not in caplog.text
    assert "hush" not in caplog.text


RENAME, DROP = "RENAME TABLE t TO later", "DROP TABLE t"


@pytest.mark.parametrize(
    ("published", "read"),
    [
        # As if each was a piece of its own: under the old name it is gone.
        ((row("t"), RENAME), ["t", "later"]),
        (
            (row("t"), "CREATE TABLE a (id int)", RENAME, "RENAME TABLE later TO last"),
            ["t", "last"],
        ),
        ((row("t"), DROP), ["t"]),
        ((RENAME, row("later")), ["later"]),
        (("CREATE TABLE n (id int)", row("n")), ["n"]),
    ],
)
def test_a_row_concerns_the_tables_that_exist_at_its_position(
    published: tuple[str, ...], read: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    found = Scene("t").publish(*published)
    assert list(dict.fromkeys(found)) == read
    assert caplog.messages == []


@pytest.mark.parametrize(
    "published", [(RENAME, row("t")), (row("n"), "CREATE TABLE n (id int)"), (DROP, row("t"))]
)
def test_a_table_of_another_position_is_none(
    published: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    assert Scene("t").publish(*published) == []
    assert caplog.messages == [f"{AFTER} (start) concerns no table"]
