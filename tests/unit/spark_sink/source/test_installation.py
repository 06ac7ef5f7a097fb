"""Which topics are of an installation: those that its table versions name."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import pytest

from spark_sink.errors import KafkaUnreachable
from spark_sink.source import installation
from spark_sink.source.admin import parsed_ids
from spark_sink.source.installation import (
    Installation,
    installation_in,
    named,
    schemas_state,
    tables_of,
)
from spark_sink.source.schemas import SchemaBook
from spark_sink.warehouse.foreign_topics import ForeignTopics
from tests.harness.memory_warehouse import MemoryNotes
from tests.unit.spark_sink.history import schema
from wire.table_version import VersionKey

NAMES = ["aq.__schemas", "aq.__journal", "aq.eu.__journal", "a.__schemas", "b.__schemas", "x"]


class Topic:
    """A schemas topic, and how often it was read."""

    def __init__(self, *topics: str | None) -> None:
        self.values = [schema(("id", "int"), topic=topic) for topic in topics]
        self.reads = 0

    def read(self) -> list[str]:
        self.reads += 1
        return self.values

    def installation(self) -> Installation:
        return Installation(
            prefix="aq", read=self.read, names=lambda: NAMES, state=lambda: len(self.values)
        )


def test_a_topic_that_no_version_names_is_strange_and_the_prefix_shows_whose_it_may_be() -> None:
    own = Topic("aq.shop.t").installation()
    own.judge(["aq.shop.t"])
    assert (own.strange, own.own_sql(own.strange)) == ({}, "")
    own.judge(["aq.shop.t", "aq.eu.shop.t", "aq.alerts"])
    assert own.strange == {"aq.eu.shop.t": "aq.eu", "aq.alerts": ""}
    assert (own.is_below("aq.eu"), own.is_below("")) == (True, False)
    assert "'aq.eu' is the prefix of another installation" in str(
        own.fault("aq.eu.shop.t", "aq.eu")
    )
    assert str(own.fault("aq.alerts", "")).startswith(
        "ForeignTopic: A topic that matches is not one of this installation, and none of its records is "
        "applied: topic aq.alerts: no table version in aq.__schemas names it. Add aq\\.alerts to exclude"
    )


def test_a_mapping_may_name_a_topic_like_those_of_another_installation() -> None:
    topic = Topic("aq.shop.t", "aq.eu.shop.t")
    own = topic.installation()
    own.judge(["aq.eu.shop.t"])
    assert own.strange == {}


def test_a_topic_that_is_named_later_is_taken_from_then_on() -> None:
    topic = Topic("aq.shop.t")
    own = topic.installation()
    for _ in range(3):
        own.judge(["aq.shop.late"])
    assert own.strange == {"aq.shop.late": ""}
    assert topic.reads == 1, "it is read again only once it has grown"
    topic.values.append(schema(("id", "int"), topic="aq.shop.late"))
    own.judge(["aq.shop.late"])
    assert own.strange == {}


def test_nothing_is_strange_to_versions_that_name_no_topic() -> None:
    for topic in (Topic(), Topic("aq.shop.t", None)):
        own = topic.installation()
        own.judge(["aq.eu.shop.t"])
        assert own.strange == {}


@pytest.mark.parametrize("text", ["{", "7", "[]", "{}", '{"topic": 7}', '{"topic": null}'])
def test_nothing_is_strange_while_a_version_cannot_be_read(text: str) -> None:
    topic = Topic("aq.shop.t")
    topic.values.append(text)
    own = topic.installation()
    own.judge(["aq.eu.shop.t"])
    assert own.strange == {}
    assert tables_of(topic.values, "aq.shop.t", "aq") == {("shop", "t"): {None}}


def test_a_merge_writes_the_topic_whose_share_a_version_names() -> None:
    shares = [schema(("id", "int"), topic="aq.__shard.shop.trade")]
    assert named(shares, "aq") == {"aq.trade"}


def test_versions_that_name_a_topic_state_the_tables_that_it_has_rows_of() -> None:
    stated = json.loads(schema(("id", "int"), topic="aq.__shard.shop.trade"))
    values = [
        json.dumps(stated | {"logical": ["trade", "orders"]}),
        json.dumps(stated | {"logical": ["trade", "all"], "version": 2}),
        schema(("id", "int"), table="earlier", topic="aq.trade"),
        schema(("id", "int"), table="other", topic="aq.shop.other"),
    ]
    assert tables_of(values, "aq.trade", "aq") == {
        ("shop", "t"): {("trade", "orders"), ("trade", "all")},
        ("shop", "earlier"): {None},
    }
    assert tables_of(values, "aq.gone", "aq") == {}


def test_the_ids_of_topics_are_read_from_java_s_text_of_them_where_the_brokers_have_some() -> None:
    one, none = "lVhFbJQFR5Wz0m1DmPKVSw", "A" * 22
    text = (
        f"[(name=aq.shop.t, topicId={one}, internal=false), (name=x--y_z.T-1, topicId=-_{one[2:]}, "
        f"internal=true), (name=old, topicId={none}, internal=false)]"
    )
    assert parsed_ids(text) == {"aq.shop.t": one, "x--y_z.T-1": f"-_{one[2:]}"}


class OpenTransaction:
    """Kafka with a version of another worker in the schemas topic that is not committed, until it is."""

    def __init__(self) -> None:
        self.decided = 1

    def schemas_end(self, *, is_decided: bool = True) -> dict[tuple[str, int], int]:
        return {("aq.__schemas", 0): self.decided if is_decided else 3}


def test_a_topic_is_not_judged_while_a_version_before_its_records_may_have_yet_to_become_visible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "_SECONDS", 0.0)
    topic, kafka = Topic("aq.shop.t"), OpenTransaction()
    topics: Any = kafka
    own = installation_in(topics, "aq", topic.read)
    own.names = lambda: NAMES
    with pytest.raises(KafkaUnreachable, match=r"aq\.__schemas .* not ended"):
        own.judge(["aq.shop.new"])
    assert (own.strange, topic.reads) == ({}, 0)
    kafka.decided, topic.values = 3, [*topic.values, schema(("id", "int"), topic="aq.shop.new")]
    own.judge(["aq.shop.new"])
    assert own.strange == {}


def test_a_version_that_an_open_transaction_before_it_hides_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "_SECONDS", 0.0)
    kafka, values = OpenTransaction(), [schema(("id", "int"), version=one) for one in (1, 2)]
    topics: Any = kafka
    book = SchemaBook(
        lambda: values if kafka.decided == 3 else values[:1],
        state=partial(schemas_state, topics, "aq"),
    )
    key = VersionKey("shop", "shop", "t", 2)
    with pytest.raises(KafkaUnreachable, match=r"aq\.__schemas .* not ended"):
        book.versions([key])

    def sleep(_: float) -> None:
        kafka.decided = 3

    monkeypatch.setattr(installation, "_SECONDS", 90.0)
    monkeypatch.setattr(time, "sleep", sleep)
    assert book.versions([key])[key].primary_key == ("id",)


class Rows:
    """Records of a strange topic. While they are counted, another thread finds a version of the topic."""

    def __init__(self, meanwhile: Any) -> None:
        self.conditions: list[str] = []
        self.meanwhile = meanwhile

    def where(self, condition: str) -> Rows:
        self.conditions.append(condition)
        return self

    def groupBy(self, _: str) -> Rows:  # noqa: N802 - Spark's name
        return self

    def count(self) -> Rows:
        return self

    def collect(self) -> list[Any]:
        self.meanwhile()
        return [Counted(topic="aq.shop.late", count=2)]


class Counted(dict[str, Any]):
    """A row of Spark's."""

    @property
    def topic(self) -> str:
        return str(self["topic"])


def test_a_batch_is_judged_as_a_whole_while_another_thread_finds_a_version(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = Topic("aq.shop.t")
    own = topic.installation()
    at = ("aq.shop.late", 0)

    def meanwhile() -> None:
        topic.values.append(schema(("id", "int"), topic="aq.shop.late"))
        own.judge(["aq.shop.late"])

    rows: Any = Rows(meanwhile)
    ForeignTopics(installation=own, notes=MemoryNotes()).own(rows, ({at: 0}, {at: 2}))
    left_out, taken = rows.conditions
    assert left_out == f"NOT {taken}"
    assert "aq.shop.late" in taken
    assert "Records left out: 2 so far" in caplog.text
    assert own.strange == {}
