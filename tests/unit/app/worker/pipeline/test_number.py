"""The record of changed keys, and its bound."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from app.worker.pipeline import changed_keys
from app.worker.pipeline.changed_keys import (
    Changed,
    ChangedKeys,
    Everything,
    GenerationBegun,
    Watched,
)
from app.worker.pipeline.version_book import VersionBook
from connectors.errors import RuleImpossible
from tables.rules.mapping.forms import from_yaml
from tables.rules.masking import MaskingKeys
from tables.rules.routes.routes import Route, Routes
from tables.rules.routes.topic_names import TopicRule
from tables.rules.routes.written_topics import Spread
from tables.rules.table_version import TableVersion
from wire.table_version import Column, Definition

ORDERS, ITEMS = ("shop", "orders"), ("shop", "items")
CHANGE: Any = SimpleNamespace(gtid="u:1", file="b.000001", committed_ms=1)


def definition(*names: str) -> Definition:
    columns = (Column(name=name, type="int", nullable=False, charset=None) for name in names)
    return Definition(columns=tuple(columns), primary_key=(names[0],))


def route(name: tuple[str, str] = ORDERS, *, partitions: int = 6) -> Route:
    found = Routes(prefix="aq", partitions=partitions).of(name)
    assert found is not None
    return found


def first(book: VersionBook, of: Route) -> TableVersion:
    return book.at(of, definition("id"), CHANGE, 4)[0]


def test_a_new_version_keeps_the_count_of_the_one_before_and_a_new_table_has_the_settings() -> None:
    old = first(VersionBook("shop", known={}), route(partitions=4))
    known = TableVersion.from_json(old.to_json())
    assert known == old
    book = VersionBook("shop", known={ORDERS: known})
    changed, is_new = book.at(route(), definition("id", "n"), CHANGE, 9)
    assert (is_new, changed.partitions) == (True, 4)
    assert first(book, route(ITEMS)).partitions == 6
    assert (book.partitions(old.topic), book.partitions("aq.shop.items")) == (4, 6)


def test_a_version_that_an_older_worker_wrote_is_read_and_goes_by_the_settings() -> None:
    written = replace(first(VersionBook("shop", known={}), route()), partitions=None).to_json()
    assert "partitions" not in written
    known = TableVersion.from_json(written)
    book = VersionBook("shop", known={ORDERS: known})
    assert book.partitions(known.topic) is None
    assert book.at(route(), definition("id"), CHANGE, 9) == (known, False)
    assert book.at(route(), definition("id", "n"), CHANGE, 9)[0].partitions == 6


def test_a_table_that_joins_a_topic_has_its_keys_over_the_partitions_of_those_before() -> None:
    book = VersionBook("shop", known={})
    topic = first(book, route(partitions=4)).topic
    joining = replace(route(ITEMS, partitions=6), topic=topic)
    assert first(book, joining).partitions == book.partitions(topic) == 4


SINCE = {0: 70, 1: 80, 2: 0}


def test_more_partitions_are_a_version_of_each_table_of_the_topic_with_the_boundary() -> None:
    book = VersionBook("shop", known={})
    old = first(book, route(partitions=2))
    joining = replace(route(ITEMS, partitions=2), topic=old.topic)
    known = {ORDERS: old, ITEMS: first(book, joining)}
    assert old.since is None
    spread = {old.topic: Spread(partitions=3, since=SINCE)}
    book = VersionBook("shop", known=known, spread=spread)
    new, is_new = book.at(route(partitions=3), definition("id"), CHANGE, 9)
    assert (is_new, new.version, new.partitions, new.since) == (True, 2, 3, SINCE)
    assert TableVersion.from_json(new.to_json()) == new
    # Another run, in which only one table has the new count, and the order of tables has no meaning.
    for names in ((ORDERS, ITEMS), (ITEMS, ORDERS)):
        known = {one: {ORDERS: new, ITEMS: known[ITEMS]}[one] for one in names}
        book = VersionBook("shop", known=known)
        assert book.partitions(old.topic) == 3
        assert book.at(route(partitions=3), definition("id"), CHANGE, 12) == (new, False)
        later, is_new = book.at(joining, definition("id"), CHANGE, 12)
        assert (is_new, later.version, later.partitions, later.since) == (True, 2, 3, SINCE)


def test_a_version_that_another_decoder_announced_brings_its_count() -> None:
    book = VersionBook("shop", known={})
    old = first(book, route(partitions=2))
    book.learn(replace(old, version=2, partitions=3, since=SINCE))
    changed, _ = book.at(route(partitions=2), definition("id", "n"), CHANGE, 12)
    assert (changed.version, changed.partitions, changed.since) == (3, 3, SINCE)


def test_another_format_is_another_version() -> None:
    book = VersionBook("shop", known={})
    plain = first(book, route())
    shaped, is_new = book.at(replace(route(), format="canal"), definition("id"), CHANGE, 9)
    assert (is_new, plain.version, shaped.version) == (True, 1, 2)
    assert TableVersion.from_json(shaped.to_json()) == shaped
    assert book.at(replace(route(), format="canal"), definition("id"), CHANGE, 9) == (shaped, False)


def test_a_definition_that_was_compared_once_is_known_until_the_version_or_the_count_changes() -> (
    None
):
    book = VersionBook("shop", known={})
    own, items = route(partitions=2), route(ITEMS, partitions=2)
    here = definition("id")
    version, _ = book.at(own, here, CHANGE, 4)
    for _ in range(2):
        assert book.at(own, here, CHANGE, 5) == (version, False)
    later = replace(version, version=2, definition=definition("id", "n"))
    book.learn(later)
    assert book.at(own, here, CHANGE, 6)[0].version == 3
    # Another table of the topic brings more partitions.
    joining = replace(items, topic=own.topic)
    before, _ = book.at(joining, here, CHANGE, 7)
    assert book.at(joining, here, CHANGE, 7) == (before, False)
    book.learn(replace(version, version=4, partitions=3, since=SINCE))
    assert book.at(joining, here, CHANGE, 8)[0].partitions == 3
    # Another route of the same table, as after a new mapping.
    moved = replace(joining, topic="aq.other")
    assert book.at(moved, here, CHANGE, 9)[0].topic == "aq.other"


def masking(actions: str) -> Route:
    """The route of the table with these actions."""
    keys = MaskingKeys((("k1", bytes(32)), ("k2", bytes(range(32)))))
    text = f"{{tables: {{shop.orders: {{column_actions: {{{actions}}}}}}}}}" if actions else "{}"
    found = Routes(prefix="aq", mapping=from_yaml(text), keys=keys).of(ORDERS)
    assert found is not None
    return found


def test_a_column_is_another_one_from_the_version_on_that_hides_more_of_it() -> None:
    book = VersionBook("shop", known={})

    def shown(actions: str, *names: str) -> tuple[int, str | None, bool]:
        given = definition(*(names or ("id", "mail")))
        one, is_new = book.at(masking(actions), given, CHANGE, 4)
        (mail,) = (column for column in one.definition.columns if column.name == "mail")
        if mail.id is not None:
            assert mail.initial == {"unknown": "masked by the mapping"}
        again, is_newer = book.at(masking(actions), given, CHANGE, 5)
        assert (again, is_newer) == (one, False)
        return one.version, mail.id, is_new

    assert shown("") == (1, None, True)
    assert shown("mail: {truncate: 9}") == (2, "mail@masked:2", True)
    # It hides more now; then as much as before, also by another key, and in a version with more columns.
    assert shown("mail: {truncate: 3}") == (3, "mail@masked:3", True)
    assert shown("mail: {hmac: k1}") == (4, "mail@masked:4", True)
    assert shown("mail: {hmac: k2}") == (5, "mail@masked:4", True)
    assert shown("mail: {hmac: k2}", "id", "mail", "n") == (6, "mail@masked:4", True)
    assert shown("") == (7, None, True)
    assert shown("id: {hmac: k1}, mail: redact") == (8, "mail@masked:8", True)
    latest = book.latest(*ORDERS)
    assert latest is not None
    # The key of published rows is judged before a run begins, and remains the same column.
    assert [one.id for one in latest.definition.columns] == [None, "mail@masked:8"]


@pytest.mark.parametrize("before", [{"blur": 3}, {"domain": "d", "blur": "k"}, "blur"])
def test_an_action_that_is_not_known_is_taken_to_have_shown_a_part_of_each_value(
    before: str | dict[str, str | int],
) -> None:
    old, _ = VersionBook("shop", known={}).at(masking(""), definition("id", "mail"), CHANGE, 4)
    known = replace(old, stated={"masked": {"mail": before}})
    book = VersionBook("shop", known={ORDERS: known})
    one, _ = book.at(masking("mail: redact"), definition("id", "mail"), CHANGE, 9)
    assert [column.id for column in one.definition.columns] == [None, "mail@masked:2"]


def test_a_column_that_was_masked_before_that_was_recorded_remains_the_same() -> None:
    old, _ = VersionBook("shop", known={}).at(
        masking("mail: {hmac: k1}"), definition("id", "mail"), CHANGE, 4
    )
    known = replace(old, stated=None)
    book = VersionBook("shop", known={ORDERS: known})
    one, is_new = book.at(masking("mail: {hmac: k1}"), definition("id", "mail"), CHANGE, 9)
    assert (is_new, one.stated) == (True, {"masked": {"mail": {"hmac": "k1"}}})
    assert [column.id for column in one.definition.columns] == [None, None]


def narrowed(columns: str, actions: str = "") -> Route:
    """The route of the table whose rule lists these columns, separated by commas."""
    rule = ", ".join(
        ([f"columns: [{columns}]"] if columns else [])
        + ([f"column_actions: {{{actions}}}"] if actions else [])
    )
    found = Routes(prefix="aq", mapping=from_yaml(f"{{tables: {{shop.orders: {{{rule}}}}}}}"))
    one = found.of(ORDERS)
    assert one is not None
    return one


def test_a_published_column_that_the_mapping_leaves_out_is_stated_as_dropped_while_it_exists() -> (
    None
):
    book = VersionBook("shop", known={})

    def masked(rule: Route, *names: str, left_out: str = "") -> dict[str, Any] | None:
        given, out = definition("id", *names), frozenset(left_out.split())
        one, _ = book.at(rule, given, CHANGE, 4, left_out=out)
        again, is_new = book.at(rule, definition("id", *names), CHANGE, 5, left_out=out)
        assert (again, is_new) == (one, False)
        assert one.stated is not None
        masked: dict[str, Any] | None = one.stated.get("masked")
        return masked

    # A column that was never published, as the source has it besides, is no one's concern.
    assert masked(narrowed("id, n, mail"), "n", "mail", left_out="other") is None
    assert masked(narrowed("id, n"), "n", left_out="mail other") == {"mail": "drop"}
    # So it stays in later versions, whatever else changes; subscribers may read only the last one.
    assert masked(narrowed("id, n, p"), "n", "p", left_out="mail other") == {"mail": "drop"}
    # The source itself has dropped p: its values stay, as of any dropped column.
    assert masked(narrowed("id, n"), "n", left_out="mail other") == {"mail": "drop"}
    # Another column may be published under the name.
    rule = narrowed("id, n", "n: {rename: mail}")
    assert masked(rule, "mail", left_out="mail other") is None
    # It is published again.
    assert masked(narrowed("id, mail"), "mail", left_out="n") is None


def test_a_column_that_comes_back_masked_after_the_mapping_dropped_it_is_another_one() -> None:
    book = VersionBook("shop", known={})
    book.at(masking(""), definition("id", "mail"), CHANGE, 4)
    book.at(masking("mail: drop"), definition("id"), CHANGE, 5)
    for pos, version in ((6, 3), (7, 3)):
        one, _ = book.at(masking("mail: {hmac: k1}"), definition("id", "mail"), CHANGE, pos)
        assert one.version == version
        assert [column.id for column in one.definition.columns] == [None, "mail@masked:3"]


def test_a_version_states_what_its_rows_are_of_and_a_rule_s_table_gets_one_that_does() -> None:
    def ruled(name: str) -> Route:
        text = (
            f"{{tables: {{{name}: {{from: [shop.orders], topic: shop.orders}}}}}}" if name else "{}"
        )
        found = Routes(prefix="aq", mapping=from_yaml(text)).of(ORDERS)
        assert found is not None
        return found

    def shown(book: VersionBook, name: str) -> tuple[int, tuple[str, str] | None, bool]:
        one, is_new = book.at(ruled(name), definition("id"), CHANGE, 4)
        assert TableVersion.from_json(one.to_json()) == one
        return one.version, one.logical, is_new

    book = VersionBook("shop", known={})
    assert shown(book, "") == (1, ORDERS, True)
    assert shown(book, "trade.orders") == (2, ("trade", "orders"), True)
    assert shown(book, "trade.other") == (3, ("trade", "other"), True)
    assert shown(book, "trade.other") == (3, ("trade", "other"), False)
    # Those of an earlier worker do not state it, and remain where no rule names the table.
    for name, found in (("", (1, None, False)), ("trade.a", (2, ("trade", "a"), True))):
        old, _ = VersionBook("shop", known={}).at(ruled(name), definition("id"), CHANGE, 4)
        book = VersionBook("shop", known={ORDERS: replace(old, logical=None)})
        assert shown(book, name) == found


@pytest.mark.parametrize("other", [("a_b", "c"), ("a", "b.c")])
def test_a_second_table_of_a_topic_that_the_settings_name_is_refused_by_both_names(
    other: tuple[str, str],
) -> None:
    def named(table: tuple[str, str], *, shared: bool) -> Route:
        rule = TopicRule(topic="{prefix}.{database}.{table}", shared=shared)
        found = Routes(prefix="p", row_topics=(rule,)).of(table)
        assert found is not None
        return found

    book = VersionBook("shop", known={})
    first(book, named(("a b", "c"), shared=False))
    with pytest.raises(RuleImpossible, match=r"topic p\.a.*, which a b\.c has"):
        first(book, named(other, shared=False))
    assert first(book, named(other, shared=True)).version == 1
    assert first(book, named(("a b", "c"), shared=False)).version == 1


@pytest.fixture
def keys() -> ChangedKeys:
    found = ChangedKeys()
    found.learn(Watched(frozenset({ORDERS, ITEMS})))
    return found


def new_keys() -> Iterator[list[str]]:
    """Portions of a hundred keys that did not occur before."""
    numbers = count()
    while True:
        yield [f'{{"id":{next(numbers)}}}' for _ in range(100)]


def test_a_read_is_compared_with_what_changed_since_its_generation_began(keys: ChangedKeys) -> None:
    keys.learn(Changed({ORDERS: ["1"]}))
    keys.learn(GenerationBegun(ORDERS, generation=1, kept=0))
    keys.learn(Changed({ORDERS: ["2"]}))
    assert keys.since(ORDERS, 0) == {"1", "2"}
    assert keys.since(ORDERS, 1) == {"2"}
    keys.learn(GenerationBegun(ORDERS, generation=2, kept=1))
    assert keys.since(ORDERS, 0) == {"2"}


def test_a_table_that_begins_no_generation_takes_no_more_memory(
    keys: ChangedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_keys, "MOST_BYTES", 256 * 1024)
    keys.learn(Changed({ITEMS: ["1"]}))
    portions = new_keys()
    tracemalloc.start()
    try:
        for _ in range(10):
            keys.learn(Changed({ORDERS: next(portions)}))
        filled = tracemalloc.get_traced_memory()[0]
        for _ in range(400):
            keys.learn(Changed({ORDERS: next(portions)}))
        assert tracemalloc.get_traced_memory()[0] <= filled
    finally:
        tracemalloc.stop()
    # A read of it is refused, one of a table with few changes is not.
    assert isinstance(keys.since(ORDERS, 0), Everything)
    assert keys.since(ITEMS, 0) == {"1"}
    # The next read begins a generation, and what changes from then on is known again.
    keys.learn(GenerationBegun(ORDERS, generation=1, kept=0))
    keys.learn(Changed({ORDERS: ["7"]}))
    assert isinstance(keys.since(ORDERS, 0), Everything)
    assert keys.since(ORDERS, 1) == {"7"}


def test_keys_count_with_their_bytes(keys: ChangedKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1 << 20
    monkeypatch.setattr(changed_keys, "MOST_BYTES", most)
    portions = new_keys()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20):
            keys.learn(Changed({ORDERS: [f"{key}{'x' * 3072}" for key in next(portions)]}))
            assert tracemalloc.get_traced_memory()[0] - before < 1.1 * most
    finally:
        tracemalloc.stop()
    assert isinstance(keys.since(ORDERS, 0), Everything)


def test_a_key_that_changes_again_and_again_counts_once(
    keys: ChangedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_keys, "MOST_BYTES", 48 * 1024)
    changed = next(new_keys())
    for _ in range(20):
        keys.learn(Changed({ORDERS: changed + changed}))
    assert keys.since(ORDERS, 0) == set(changed)


def test_keys_of_dropped_generations_do_not_count(
    keys: ChangedKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_keys, "MOST_BYTES", 48 * 1024)
    portions = new_keys()
    for generation in range(1, 50):
        keys.learn(GenerationBegun(ORDERS, generation=generation, kept=generation - 1))
        changed = next(portions)
        keys.learn(Changed({ORDERS: changed}))
        assert keys.since(ORDERS, generation) == set(changed)
