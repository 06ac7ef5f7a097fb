"""Topics that were deleted and made again, and which tables wait for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from spark_sink.errors import DataLost
from spark_sink.warehouse.shape import Shape
from spark_sink.warehouse.topic_ids import TopicIds
from spark_sink.warehouse.waiting_tables import Request, Waits
from tests.harness.memory_warehouse import MemoryWarehouse

OLD, NAME, MAPPED = ("aq.shop.t", 0), ("shop", "t"), ("trade", "all")


@dataclass(frozen=True, slots=True)
class Part:
    name: tuple[str, str]
    places: frozenset[tuple[str, int]] = frozenset({OLD})
    is_apart: bool = False


def unstated(*sources: tuple[str, str]) -> dict[tuple[str, str], set[tuple[str, str] | None]]:
    """Source tables of earlier workers' versions, which do not state what the records are of."""
    return {one: {None} for one in sources}


def noted(kept: MemoryWarehouse) -> TopicIds:
    """What a process knows that begins."""
    waits = Waits(kept.log, lambda: 0.0)
    waits.refresh()
    return TopicIds(
        notes=kept.notes, waits=waits, tables=kept.tables.names, shape=kept.tables.shape
    )


def warehouse() -> MemoryWarehouse:
    kept = MemoryWarehouse()
    for name in (NAME, MAPPED):
        kept.tables.evolve(None, Shape(*name, (("id", "int"),), ("id",)))
    noted(kept).keep({OLD[0]: "a", "aq.shop.u": "u"})
    return kept


def test_a_topic_with_another_id_than_the_noted_one_was_made_again() -> None:
    one = noted(warehouse())
    one.check({OLD[0]: "a", "aq.shop.new": "n"})
    assert one.replaced({OLD[0]: "b", "aq.shop.u": "u", "aq.shop.new": "n", "later": "x"}) == {
        OLD[0]
    }
    with pytest.raises(DataLost, match=r"topic aq\.shop\.t was deleted and made again"):
        one.check({OLD[0]: "b"})


def test_the_commands_are_those_of_the_tables_that_the_rows_come_from() -> None:
    kept = warehouse()
    shape = Shape(*MAPPED, (("id", "int"),), ("id",), apart=True)
    followed = tuple((f"from{n}", "shop", f"part {n}", 1) for n in (2, 1))
    kept.tables.evolve(shape, replace(shape, followed=followed))
    one = replace(noted(kept), sources=lambda name: {"shop"} if name == NAME else set())
    one.wait({OLD[0]: unstated(NAME, MAPPED)}, {OLD: 0})
    start = "python -m app snapshot start"
    assert f"again: {start} shop shop.t; once" in one.waits.tables[NAME].action
    advice = one.waits.tables[MAPPED].action
    assert f"again: {start} from1 'shop.part 1'; {start} from2 'shop.part 2'; once" in advice
    kept.tables.evolve(replace(shape, followed=followed), shape)
    one = replace(noted(kept), sources=lambda _: {"shop"})
    one.wait({OLD[0]: unstated(MAPPED)}, {OLD: 0})
    assert f"again: {start} shop trade.all; once" in one.waits.tables[MAPPED].action


def test_the_offsets_of_a_wait_or_a_reload_in_it_are_void() -> None:
    kept = warehouse()
    one = noted(kept)
    one.waits.begin(NAME, DataLost(), {OLD: 90, ("aq.shop.u", 0): 7})  # type: ignore[arg-type]
    one.wait({OLD[0]: unstated()}, {OLD: 0, ("aq.shop.t", 1): 3, ("aq.shop.u", 0): 0})
    held = one.waits.tables[NAME]
    assert held.error == "TopicReplaced"
    assert held.offsets == {OLD: 0, ("aq.shop.t", 1): 3, ("aq.shop.u", 0): 7}


def test_a_table_that_mapped_tables_fill_waits_before_any_record_if_it_may_have_rows_of_the_topic() -> (
    None
):
    kept = warehouse()

    def mapped(table: str, *sources: tuple[str, str]) -> None:
        followed = tuple(("shop", *source, 1) for source in sources)
        columns = (("id", "int"),)
        kept.tables.evolve(
            None, Shape("all", table, columns, ("id",), apart=True, followed=followed)
        )

    mapped("orders", ("shop_1", "orders_3"), ("shop_2", "orders_4"))
    mapped("users", ("shop_1", "users_1"))
    mapped("unknown")
    one = noted(kept)
    one.wait({OLD[0]: unstated(("shop_1", "orders_3"))}, {OLD: 0})
    assert sorted(one.waits.tables) == [("all", "orders"), ("all", "unknown")]


@pytest.mark.parametrize(
    ("filled", "waiting"),
    [
        ({NAME}, {NAME}),
        ({MAPPED}, {NAME, MAPPED}),
        ({NAME, ("trade", "not_there")}, {NAME}),
        ({NAME, None}, {NAME, MAPPED}),
    ],
)
def test_a_table_of_a_rule_waits_if_a_version_that_names_the_topic_is_of_it_or_does_not_say(
    filled: set[tuple[str, str] | None], waiting: set[tuple[str, str]]
) -> None:
    kept = warehouse()
    shape = Shape(*MAPPED, (("id", "int"),), ("id",))
    kept.tables.evolve(shape, replace(shape, apart=True))
    one = noted(kept)
    one.wait({OLD[0]: {NAME: filled}}, {OLD: 0}, lost={OLD[0]: "some are gone"})
    assert set(one.waits.tables) == waiting
    # Of a topic that no version names, nothing is known.
    other = noted(kept)
    other.wait({"aq.shop.u": {}}, {("aq.shop.u", 0): 0}, lost={"aq.shop.u": "some are gone"})
    assert MAPPED in other.waits.tables


def test_a_table_of_a_mapping_waits_at_its_first_record_and_only_once() -> None:
    kept = warehouse()
    one = noted(kept)
    one.wait({OLD[0]: unstated(NAME, ("shop", "not_there"))}, {OLD: 0})
    one.keep({OLD[0]: "b"})
    assert sorted(one.waits.tables) == [NAME]
    parts = [
        Part(NAME),
        Part(MAPPED, is_apart=True),
        Part(("trade", "new"), is_apart=True),
        Part(("x", "y"), frozenset()),
    ]
    # The process is killed before the wait is recorded, and again.
    for again in (one, noted(kept), noted(kept)):
        assert list(again.faults(parts)) == [MAPPED]
    last = noted(kept)
    last.waits.begin(MAPPED, last.faults(parts)[MAPPED], {OLD: 0})
    assert last.faults(parts) == {}
    kept.tables.evolve(None, Shape("trade", "new", (("id", "int"),), ("id",)))
    held = last.waits.tables[MAPPED]
    last.waits.loaded(held, {OLD: 5}, Request(number="1", database="trade", table="all"))
    assert noted(kept).faults(parts) == {}, "after the reload either"


def test_tables_of_topics_that_lack_records_wait_for_what_is_gone() -> None:
    kept = warehouse()
    one = noted(kept)
    text = "topic aq.shop.t, partition 0 is read up to offset 5, and Kafka has 6 to 9"
    one.wait({OLD[0]: unstated(NAME)}, {OLD: 6}, lost={OLD[0]: text})
    held = one.waits.tables[NAME]
    assert (held.error, held.reason, held.offsets) == ("ChangesLost", text, {OLD: 6})
    assert "again: python -m app snapshot start DEST shop.t --replace; and wait" in held.action
    assert held.action.endswith("python -m spark_sink reload shop.t")
    # A table that a mapping fills is known once it has a record, perhaps in a later process.
    fault = noted(kept).faults([Part(MAPPED, is_apart=True)])[MAPPED]
    assert (type(fault).__name__, fault.where) == ("ChangesLost", text)
    # The topic is made again meanwhile.
    last = noted(kept)
    last.wait({OLD[0]: unstated(NAME)}, {OLD: 0})
    assert last.waits.tables[NAME].error == "TopicReplaced"
    # Two topics at once: each table waits for its own.
    other = noted(warehouse())
    gone = {"aq.shop.t": "t lacks some", "aq.shop.u": "u lacks some"}
    names = {"aq.shop.t": unstated(NAME), "aq.shop.u": unstated(MAPPED, NAME)}
    other.wait(names, {OLD: 6, ("aq.shop.u", 0): 7}, lost=gone)
    found = {name: (held.reason, held.offsets) for name, held in other.waits.tables.items()}
    assert found == {
        NAME: ("t lacks some; u lacks some", {OLD: 6, ("aq.shop.u", 0): 7}),
        MAPPED: ("u lacks some", {("aq.shop.u", 0): 7}),
    }
    (again,) = noted(kept).faults([Part(MAPPED, is_apart=True)]).values()
    assert type(again).__name__ == "TopicReplaced"


def test_a_table_that_gets_its_name_by_a_rename_has_no_rows_of_the_earlier_topic() -> None:
    kept = warehouse()
    one = noted(kept)
    # No table had the name of the topic when that was made again.
    kept.tables.drop(*NAME)
    one.wait({OLD[0]: unstated(NAME)}, {OLD: 0})
    one.keep({OLD[0]: "b"})
    renamed = Shape(*NAME, (("id", "int"),), ("id",))
    kept.tables.evolve(None, renamed)
    assert one.faults([Part(NAME)]) == {}
    # Nor one with late rows of it from before it was renamed: it waited under its earlier name.
    kept.tables.evolve(None, Shape("shop", "later", renamed.columns, renamed.key))
    assert noted(kept).faults([Part(("shop", "later"))]) == {}
    # Of a table that mapped tables fill it is not known.
    assert list(noted(kept).faults([Part(MAPPED, is_apart=True)])) == [MAPPED]
