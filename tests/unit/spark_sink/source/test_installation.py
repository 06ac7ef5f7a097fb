"""Which topics are of an installation: those that its table versions name."""

from __future__ import annotations

from spark_sink.source.admin import parsed_ids
from spark_sink.source.installation import Installation, installations, named
from tests.unit.spark_sink.history import schema

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
    assert (own.strange, own.own_sql()) == ({}, "")
    own.judge(["aq.shop.t", "aq.eu.shop.t", "aq.alerts"])
    assert own.strange == {"aq.eu.shop.t": "aq.eu", "aq.alerts": ""}
    assert (own.is_below("aq.eu.shop.t"), own.is_below("aq.alerts")) == (True, False)
    assert "'aq.eu' is the prefix of another installation" in str(own.fault("aq.eu.shop.t"))
    assert str(own.fault("aq.alerts")).startswith(
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


def test_a_merge_writes_the_topic_whose_share_a_version_names() -> None:
    shares = [schema(("id", "int"), topic="aq.__shard.shop.trade")]
    assert named(shares, "aq") == {"aq.trade"}
    assert installations(NAMES) == {"aq", "aq.eu", "a", "b"}


def test_the_ids_of_topics_are_read_from_java_s_text_of_them_where_the_brokers_have_some() -> None:
    one, none = "lVhFbJQFR5Wz0m1DmPKVSw", "A" * 22
    text = (
        f"[(name=aq.shop.t, topicId={one}, internal=false), (name=x--y_z.T-1, topicId=-_{one[2:]}, "
        f"internal=true), (name=old, topicId={none}, internal=false)]"
    )
    assert parsed_ids(text) == {"aq.shop.t": one, "x--y_z.T-1": f"-_{one[2:]}"}
