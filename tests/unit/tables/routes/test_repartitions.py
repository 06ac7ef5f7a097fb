"""Which topics get more partitions, and which counts a mapping may not state."""

from __future__ import annotations

import re
from typing import Any

import pytest

from connectors.errors import MappingError
from connectors.mysql.position import Coordinates
from tables.mapping.yaml_form import from_yaml
from tables.routes.repartitions import Growth, growth, partitions_of, spread_of
from tables.routes.routes import Routes
from tables.table_version import Definition, TableVersion

MERGED = {"merged": True, "destination": "m1"}


def version(table: str, partitions: int | None, topic: str) -> TableVersion:
    return TableVersion(
        destination="m1", database="s", table=table, version=1, topic=topic,
        definition=Definition(columns=(), primary_key=()),
        gtid=None, coordinates=Coordinates("b.000001", 4), ts_ms=1, partitions=partitions,
    )  # fmt: skip


def grown(rules: str, *counts: int | None, topic: str = "aq.t", **more: Any) -> dict[str, Growth]:
    text = f"{{databases: {{s: {{topic: t}}}}, tables: {{s.a: {{{rules}}}}}}}"
    routes = Routes(prefix="aq", partitions=3, mapping=from_yaml(text), **more)
    tables = {
        ("s", name): version(name, one, topic) for name, one in zip("ab", counts, strict=False)
    }
    return growth(routes, tables)


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
    ("rules", "more", "fault"),
    [
        ("partitions: 4", {}, r"in 2 partitions, and its rule states 4.* add repartition_from: 2$"),
        ("partitions: 4, repartition_from: 3", {}, r"repartition_from: 2, and not .*: 3$"),
        ("partitions: 1", {}, "no topic loses partitions: state partitions: 2"),
        ("partitions: 4, repartition_from: 2", MERGED, "a merged topic keeps its count"),
    ],
)
def test_a_count_that_cannot_be_is_refused(rules: str, more: dict[str, Any], fault: str) -> None:
    topic = "aq.__shard.m1.t" if more else "aq.t"
    with pytest.raises(MappingError) as raised:
        grown(rules, 2, topic=topic, **more)
    (found,) = raised.value.faults
    assert found.startswith(f"topic {topic} has its keys")
    assert re.search(fault, found)
