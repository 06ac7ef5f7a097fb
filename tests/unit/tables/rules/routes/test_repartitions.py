"""Which topics get more partitions, and which counts a mapping may not state."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from app.worker.pipeline.version_book import VersionBook
from connectors.errors import MappingError
from connectors.mysql.position import Coordinates
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tables.rules.routes.written_topics import (
    Growth,
    Spread,
    growth,
    kept,
    partitions_of,
    returned,
    spread_of,
    tag_counts,
)
from tables.rules.table_version import TableVersion
from wire.table_version import Definition

MERGED = {"merged": True, "destination": "m1"}


def version(table: str, partitions: int | None, topic: str) -> TableVersion:
    return TableVersion(
        destination="m1", database="s", table=table, version=1, topic=topic,
        definition=Definition(columns=(), primary_key=()),
        gtid=None, coordinates=Coordinates("b.000001", 4), ts_ms=1, partitions=partitions,
    )  # fmt: skip


def routed(
    rules: str, *counts: int | None, topic: str = "aq.t", **more: Any
) -> tuple[Routes, list[TableVersion]]:
    """The routes by these rules of one of two tables, and the versions of the tables."""
    text = f"{{databases: {{s: {{topic: t}}}}, tables: {{s.a: {{{rules}}}}}}}"
    routes = Routes(prefix="aq", partitions=3, mapping=from_yaml(text), **more)
    return routes, [version(name, one, topic) for name, one in zip("ab", counts, strict=False)]


def grown(rules: str, *counts: int | None, topic: str = "aq.t", **more: Any) -> dict[str, Growth]:
    return growth(*routed(rules, *counts, topic=topic, **more))


TAGGED = "tags: {'': x, f: y}, tag_topics: [x, y]"


@pytest.mark.parametrize(
    ("rules", "counts", "found"),
    [
        # The topic may have grown while no rule named the tag.
        (f"partitions: 4, {TAGGED}", (4, 4), 4),
        (f"partitions: 4, repartition_from: 2, {TAGGED}", (2, 2), 4),
        (TAGGED, (2,), 2),
        (TAGGED, (None,), 3),
    ],
)
def test_topics_of_tags_have_as_many_partitions_as_that_of_the_rows(
    rules: str, counts: tuple[int | None, ...], found: int
) -> None:
    routes, versions = routed(rules, *counts)
    counted = tag_counts(routes, versions, growth(routes, versions))
    assert counted == {"aq.__tag.x.t": found, "aq.__tag.y.t": found}


def test_rules_without_topics_of_tags_have_none_to_grow() -> None:
    assert tag_counts(*routed("tags: {'': x}", 2), {}) == {}
    assert tag_counts(*routed(TAGGED, 2, topic="aq.before"), {}) == {}


@pytest.mark.parametrize(
    ("rules", "counts"),
    [
        ("columns: [id]", (2,)),
        ("partitions: 4", (4,)),
        ("partitions: 4, repartition_from: 2", (4, 4)),
        # Of two tables of the topic one has had no row since.
        ("partitions: 4, repartition_from: 2", (2, 4)),
        ("partitions: 3", (None,)),
        ("partitions: 4", ()),
    ],
)
def test_a_topic_keeps_its_count_that_no_rule_contradicts(
    rules: str, counts: tuple[int | None, ...]
) -> None:
    assert grown(rules, *counts) == {}


def test_a_topic_grows_if_its_count_is_named() -> None:
    found = grown("partitions: 4, repartition_from: 2, tags: {'': x}, tag_topics: [x]", 2, 2)
    tagged = frozenset({"aq.__tag.x.t"})
    assert found == {"aq.t": Growth(before=2, partitions=4, tag_topics=tagged)}
    places = partitions_of(found.items())
    assert places == [("aq.t", part) for part in range(4)]
    spread = spread_of(found, {one: 10 * one[1] for one in places})
    assert spread["aq.t"].since == {0: 0, 1: 10, 2: 20, 3: 30}
    # The count of a version without one is the settings'.
    assert grown("partitions: 4, repartition_from: 3", None)["aq.t"].before == 3


def test_rows_of_an_earlier_topic_do_not_count() -> None:
    assert grown("partitions: 4", 2, topic="aq.before") == {}


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ("partitions: 4", r"in 2 partitions, and its rule states 4.* add repartition_from: 2$"),
        ("partitions: 4, repartition_from: 3", r"repartition_from: 2, and not .*: 3$"),
        ("partitions: 1", "no topic loses partitions: state partitions: 2"),
    ],
)
def test_a_count_that_cannot_be_is_refused(rules: str, fault: str) -> None:
    with pytest.raises(MappingError) as raised:
        grown(rules, 2)
    (found,) = raised.value.faults
    assert found.startswith("topic aq.t has its keys")
    assert re.search(fault, found)


def test_a_share_of_a_merged_topic_keeps_its_count_and_says_so() -> None:
    topic = "aq.__shard.m1.t"
    assert grown("partitions: 4, repartition_from: 2", 2, topic=topic, **MERGED) == {}
    routes, versions = routed("partitions: 4", 2, topic=topic, **MERGED)
    (warning,) = kept(routes, versions)
    assert warning.startswith(f"topic {topic} keeps its 2 partitions, though its rule states 4")
    assert kept(*routed("partitions: 2", 2, topic=topic, **MERGED)) == []
    assert kept(*routed("partitions: 4", 2)) == []


def test_a_topic_that_a_table_returns_to_keeps_its_partitions() -> None:
    routes, (left,) = routed("partitions: 5", 2)
    later = replace(left, version=2, topic="aq.u", partitions=7)
    kept = returned([left, later])
    assert kept == {"aq.t": Spread(partitions=2, since={})}
    book = VersionBook("m1", known={("s", "a"): later}, spread=kept)
    assert (book.partitions("aq.t"), book.partitions("aq.u")) == (2, 7)
    assert returned([replace(later, version=0), left]) == {"aq.u": Spread(partitions=7, since={})}
    with pytest.raises(MappingError, match="has its keys in 2 partitions, and its rule states 5"):
        growth(routes, [left, later])
