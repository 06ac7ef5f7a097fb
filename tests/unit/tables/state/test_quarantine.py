"""Quarantined tables and operators' decisions on them, in the journal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import orjson
import pytest

from connectors.kafka.reading import StoredRecord
from connectors.mysql.ddl.definition import Table, TableChange
from tables.history.record import Given, SchemaRecord
from tables.state.quarantine import GIVE_UP, Entry, Outcome, Quarantine, Resolution, note_of
from tests.unit.tables.made import ORDERS, at, table

ENTRY = Entry(
    destination="shop",
    name=ORDERS,
    since=at(200),
    why="it says otherwise",
    outcome=Outcome.GIVEN_UP,
    offset=7,
    resolution="r1",
    given=Given(by="anna", ts_ms=5, source=GIVE_UP),
    lost=3,
)
RESOLUTION = Resolution(
    destination="shop", name=ORDERS, id="r1", table=None, by="anna", ts_ms=5, source=GIVE_UP
)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, ["orders --binlog", "orders --server", "orders --definition"]),
        ({"error": "RowUnreadable"}, ["orders --give-up"]),
        ({"error": "SchemaRefused", "is_by_rule": True}, ["orders --again"]),
        ({"is_by_rule": True}, ["orders --again"]),
        ({"is_by_rule": True, "is_by_topic": True}, ["orders --again"]),
        ({"error": "RowUnreadable", "name": ("shop", "it is")}, ["'shop.it is' --give-up"]),
    ],
)
def test_a_quarantined_table_has_the_commands_that_release_it(
    entry: dict[str, Any], words: list[str]
) -> None:
    (kept,) = folded(found := replace(ENTRY, **entry)).entries.values()
    assert kept == found
    command = r"python -m app schema resolve shop (?:shop\.)?(\S+(?: is')? --[a-z-]+)"
    assert re.findall(command, kept.action) == words, kept.action


def folded(*notes: Entry | Resolution, without: tuple[str, ...] = ()) -> Quarantine:
    found = Quarantine("shop")
    for offset, (key, value) in enumerate(map(note_of, notes)):
        read = {k: v for k, v in orjson.loads(value).items() if k not in without}
        kind, _, *names = key.decode().split("/")
        found.take(kind, names, StoredRecord(key, orjson.dumps(read), offset))
    return found


def test_another_version_of_the_mapping_tries_what_a_rule_quarantined_and_nothing_else() -> None:
    waiting = replace(ENTRY, outcome=Outcome.WAITING, given=None, lost=0)
    by_rule = replace(waiting, is_by_rule=True, table=table(), resolution="")
    found = folded(by_rule)
    (tried,) = found.try_rules_again(version=4, ts_ms=9)
    assert (tried.id, tried.keeps_definition, tried.by) == (
        "mapping-4",
        True,
        "version 4 of the mapping",
    )
    assert found.pending() == [tried]
    assert folded(by_rule, tried).pending() == [tried]
    # Other causes, tables that are back, and those that an operator has just resolved.
    assert folded(waiting).try_rules_again(version=4, ts_ms=9) == []
    released = replace(by_rule, outcome=Outcome.RELEASED)
    assert folded(released).try_rules_again(version=4, ts_ms=9) == []
    other = replace(RESOLUTION, id="r9", table=table(), source="definition")
    assert folded(by_rule, other).try_rules_again(version=4, ts_ms=9) == []


def test_a_topic_that_can_take_rows_brings_its_tables_back_by_their_own_definitions() -> None:
    waiting = replace(ENTRY, outcome=Outcome.WAITING, given=None, lost=0, resolution="")
    found = folded(replace(waiting, is_by_rule=True, is_by_topic=True, table=table()))
    assert found.entries[ORDERS].is_by_topic
    (tried,) = found.try_topics_again([ORDERS], epoch=5, ts_ms=9)
    assert (tried.id, tried.keeps_definition, found.pending()) == ("topic-5", True, [tried])
    # It could not after all: what was tried is not tried again, and the table waits as before.
    entry = found.add(ORDERS, "full", at(400), is_by_rule=True, is_by_topic=True)
    assert (entry.outcome, entry.reason, entry.why) == (Outcome.WAITING, "full", ENTRY.why)
    assert entry.is_by_topic
    assert found.pending() == []
    (again,) = found.try_topics_again([ORDERS], epoch=6, ts_ms=9)
    assert found.pending() == [again]


def test_a_table_that_an_operator_resolved_waits_for_another_resolution_if_its_topic_is_unfit() -> (
    None
):
    waiting = replace(ENTRY, outcome=Outcome.WAITING, given=None, lost=0, resolution="")
    given = replace(RESOLUTION, id="r9", table=table(), source="definition")
    found = folded(waiting, given)
    entry = found.add(ORDERS, "full", at(400), is_by_rule=True, is_by_topic=True)
    # The quarantine has no definition to try by itself.
    assert (entry.reason, entry.resolution, entry.is_by_topic) == ("full", "r9", False)


def statement(old: Table | None, new: Table | None) -> SchemaRecord:
    change = TableChange(name=ORDERS, old=old, new=new)
    return SchemaRecord(destination="shop", number=1, position=at(300), changes=(change,))


def test_what_is_kept_is_read_as_it_was_written() -> None:
    found = folded(ENTRY, RESOLUTION)
    assert found.entries == {ORDERS: ENTRY}
    assert found.resolutions == {ORDERS: RESOLUTION}
    assert RESOLUTION.gives_up


def test_what_an_older_version_wrote_gives_nothing_up() -> None:
    waiting = replace(ENTRY, outcome=Outcome.WAITING, given=None, lost=0)
    found = folded(waiting, RESOLUTION, without=("given", "lost", "source"))
    assert found.entries == {ORDERS: waiting}
    assert not found.resolutions[ORDERS].gives_up


def test_a_table_that_is_given_up_does_not_wait_and_can_be_resolved() -> None:
    found = folded(ENTRY, RESOLUTION)
    assert found.quarantined == {}
    assert found.given_up == {ORDERS: ENTRY}
    assert found.pending() == []
    later = replace(RESOLUTION, id="r2", table=table(), source="definition")
    assert folded(ENTRY, later).pending() == [later]


def test_a_table_that_is_quarantined_again_is_not_given_up_by_what_was_said_before() -> None:
    found = folded(replace(ENTRY, outcome=Outcome.RELEASED), RESOLUTION)
    entry = found.add(ORDERS, "again", at(900))
    assert (entry.outcome, entry.offset, entry.lost) == (Outcome.WAITING, 7, 0)
    assert found.pending() == []


def test_a_table_that_was_given_up_and_is_brought_back_waits_if_its_topic_is_unfit() -> None:
    # The statement that makes it again is not committed yet, and would be refused again by each run.
    found = folded(ENTRY, RESOLUTION)
    entry = found.add(ORDERS, "full", at(900), is_by_rule=True, is_by_topic=True)
    assert (entry.outcome, entry.given, found.pending()) == (Outcome.WAITING, None, [])


@pytest.mark.parametrize(
    ("old", "new", "ends"),
    [
        (None, table(), True),
        (table(), None, True),
        (None, None, True),
        (table(), table("a"), False),
    ],
)
def test_it_is_read_again_once_its_name_stands_for_another_table(
    old: Table | None, new: Table | None, *, ends: bool
) -> None:
    found = folded(ENTRY)
    made = found.released_by_statement(statement(old, new))
    assert [one.outcome for one in made] == ([Outcome.RELEASED] if ends else [])
    assert (ORDERS in found.given_up) is not ends
    assert found.released_by_statement(statement(old, new)) == []
    waiting = folded(replace(ENTRY, outcome=Outcome.WAITING))
    assert waiting.released_by_statement(statement(old, new)) == []
