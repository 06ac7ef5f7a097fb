"""What changes when a new mapping comes into force: partitions of topics, and tables that are tried again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.operator.trial.side import known_tables, rules_of_next, tried_again
from app.worker.pipeline.gather.captured_tables import Schema, Unpublished
from connectors.errors import MappingError
from connectors.mysql.position import Coordinates, SourceOffset
from tables.history.position import HistoryPosition
from tables.rules.table_version import TableVersion
from tables.state.quarantine import Outcome, Quarantine, Resolution
from tests import made
from tests.unit.app.operator.trial.recorded import cursor, history, routes
from tests.unit.app.worker.pipeline.runs import RULES
from wire.table_version import Definition

ORDERS, USERS = ("shop", "orders"), ("shop", "users")
STATED = "tables: {{orders: {{from: [shop.orders], topic: t, partitions: {}{}}}}}"
START = cursor().offset
LATER = replace(START, coordinates=Coordinates(made.FILE, 9000))


def version(partitions: int) -> list[TableVersion]:
    one = TableVersion(
        destination="shop", database="shop", table="orders", version=1, topic="aq.t",
        definition=Definition(columns=(), primary_key=()), gtid=None, coordinates=made.START, ts_ms=0,
        partitions=partitions,
    )  # fmt: skip
    return [one]


def test_a_topic_gets_the_partitions_that_its_rule_asks_for() -> None:
    asked = routes(STATED.format(5, ", repartition_from: 2"))
    rules = rules_of_next(RULES, asked, version(2))
    assert rules.routes is asked
    assert {topic: one.partitions for topic, one in rules.spread.items()} == {"aq.t": 5}
    assert rules_of_next(RULES, asked, version(5)).spread == {}


def test_another_number_without_asking_is_refused_as_by_a_worker() -> None:
    with pytest.raises(MappingError, match="in 2 partitions, and its rule states 5"):
        rules_of_next(RULES, routes(STATED.format(5, "")), version(2))


def quarantine(*, is_by_rule: bool, since: SourceOffset = LATER) -> Quarantine:
    found = Quarantine("shop")
    position = HistoryPosition.between(since, ts_ms=0)
    found.add(ORDERS, "no column x", position, is_by_rule=is_by_rule)
    return found


def known(found: Quarantine, offset: SourceOffset) -> Schema:
    again = tried_again(found)
    return known_tables(routes(None), history(), found, offset, again=again)[ORDERS]


def test_a_table_that_a_rule_quarantined_is_tried_again_and_no_other() -> None:
    after = replace(LATER, coordinates=Coordinates(made.FILE, 9999))
    assert known(quarantine(is_by_rule=True), after) is not Unpublished.QUARANTINED
    assert known(quarantine(is_by_rule=False), after) is Unpublished.QUARANTINED
    waits = quarantine(is_by_rule=True)
    waits.resolutions[ORDERS] = Resolution(
        destination="shop", name=ORDERS, id="r", table=None, by="ann", ts_ms=0
    )
    assert known(waits, after) is Unpublished.QUARANTINED


def test_a_table_that_a_mapping_does_not_place_keeps_no_other_from_a_trial() -> None:
    own = routes("tables: {a: {from: ['shop.order.*']}, b: {from: ['shop.orde.*']}}")
    assert "same rank" in getattr(own.of(ORDERS), "fault", "")
    found = known_tables(own, history(), Quarantine("shop"), START)
    assert found == known_tables(routes(None), history(), Quarantine("shop"), START)


def test_a_table_is_as_it_was_at_the_position() -> None:
    found = quarantine(is_by_rule=False)
    assert known(found, START) is not Unpublished.QUARANTINED
    found.entries[ORDERS] = replace(found.entries[ORDERS], outcome=Outcome.GIVEN_UP)
    assert known(found, LATER) is Unpublished.GIVEN_UP
    found.entries[ORDERS] = replace(found.entries[ORDERS], outcome=Outcome.RELEASED)
    assert known(found, LATER) is not Unpublished.QUARANTINED
    assert USERS in known_tables(routes(None), history(), found, LATER)
