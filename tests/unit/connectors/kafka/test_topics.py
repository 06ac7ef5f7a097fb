"""Which existing topics are refused: those that would lose or disorder what is written."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.errors import AqueductError, KafkaDenied, KafkaLost, TopicGone
from connectors.kafka.topics import (
    Compaction,
    TopicFacts,
    TopicPlan,
    Topics,
    faults,
    slow_compaction,
)

PLAN = TopicPlan(name="aq.shop.orders", partitions=4, replication_factor=1, max_message_bytes=1024)
WEEK = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


def told(plan: TopicPlan, config: dict[str, str], *, partitions: int = 4) -> list[str]:
    return list(faults(plan, TopicFacts(partitions, config)))


def test_a_topic_as_we_make_it_has_no_fault() -> None:
    assert told(PLAN, PLAN.config()) == []
    compacted = replace(PLAN, cleanup_policy="compact,delete", retention_ms=5)
    assert told(compacted, {**compacted.config(), "cleanup.policy": "delete,compact"}) == []


@pytest.mark.parametrize("partitions", [1, 3, 5])
def test_another_count_of_partitions_is_refused_with_what_to_set(partitions: int) -> None:
    (fault,) = told(PLAN, PLAN.config(), partitions=partitions)
    assert f"set topics.partitions to {partitions}" in fault


SOON = Compaction(
    segment_bytes=1000, segment_ms=10, dirty_ratio=0.1, max_lag_ms=20, delete_retention_ms=30
)


def test_a_file_of_a_topic_is_never_smaller_than_what_a_record_may_have() -> None:
    assert "segment.bytes" not in PLAN.config()
    plan = replace(PLAN, compaction=SOON, max_message_bytes=10)
    assert plan.config()["segment.bytes"] == "1000"
    assert replace(plan, max_message_bytes=2000).config()["segment.bytes"] == "2000"


def test_a_compacted_topic_states_how_soon_it_forgets_what_is_superseded() -> None:
    config = replace(PLAN, compaction=SOON, max_message_bytes=10).config()
    assert (
        config.items()
        >= {
            "segment.ms": "10",
            "min.cleanable.dirty.ratio": "0.1",
            "max.compaction.lag.ms": "20",
            "delete.retention.ms": "30",
        }.items()
    )


def test_a_compacted_topic_that_forgets_later_is_taken_with_a_warning_that_mends_it() -> None:
    plan = replace(PLAN, compaction=SOON, max_message_bytes=10)
    assert slow_compaction(plan, TopicFacts(4, plan.config())) is None
    assert slow_compaction(PLAN, TopicFacts(4, {"delete.retention.ms": "86400000"})) is None
    slow = {**plan.config(), "delete.retention.ms": "86400000", "min.cleanable.dirty.ratio": "0.5"}
    told = slow_compaction(plan, TopicFacts(4, slow))
    assert told is not None
    assert "--add-config min.cleanable.dirty.ratio=0.1,delete.retention.ms=30" in told


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes"])
def test_a_topic_that_forgets_is_refused_with_the_command_that_mends_it(name: str) -> None:
    (fault,) = told(PLAN, {**PLAN.config(), name: "604800000"})
    assert f"kafka-configs.sh --alter --topic aq.shop.orders --add-config {name}=-1" in fault


def test_a_topic_that_keeps_longer_than_asked_is_taken() -> None:
    week = replace(PLAN, retention_ms=604800000)
    assert told(week, WEEK) == []
    assert told(week, {**WEEK, "retention.ms": "-1"}) == []
    assert told(week, {**WEEK, "retention.ms": "604800001"}) == []
    assert len(told(week, {**WEEK, "retention.ms": "604799999"})) == 1


def test_compaction_where_history_is_wanted_is_refused() -> None:
    (fault,) = told(PLAN, {**PLAN.config(), "cleanup.policy": "compact"})
    assert "cleanup.policy=delete" in fault


def test_the_retention_of_a_topic_that_never_deletes_does_not_matter() -> None:
    journal = replace(PLAN, cleanup_policy="compact")
    assert told(journal, {"cleanup.policy": "compact", "retention.ms": "604800000"}) == []


def test_all_faults_of_a_topic_are_told_at_once() -> None:
    assert (
        len(told(PLAN, {"cleanup.policy": "compact,delete", "retention.ms": "5"}, partitions=1))
        == 3
    )


def test_a_topic_that_takes_less_than_the_settings_say_is_refused_where_they_decide_what_is_too_large() -> (
    None
):
    facts = TopicFacts(4, {"max.message.bytes": "1000", "cleanup.policy": "delete"})
    assert list(faults(PLAN, facts)) == []
    (fault,) = faults(replace(PLAN, takes_all=True), facts)
    assert "max.message.bytes=1024" in fault
    more = TopicFacts(4, {"max.message.bytes": "2000", "cleanup.policy": "delete"})
    assert list(faults(replace(PLAN, takes_all=True), more)) == []


class Admin:
    """A broker that answers about one topic."""

    listed: tuple[str, ...] = ()
    code = 0

    def __init__(self, **_: Any) -> None:
        self.made: list[str] = []

    async def start(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    async def list_topics(self) -> list[str]:
        return list(self.listed)

    async def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        partitions = [{"leader": 1}] * PLAN.partitions
        return [{"topic": name, "error_code": 0, "partitions": partitions} for name in names]

    async def describe_configs(self, resources: list[Any]) -> list[Any]:
        entries = list(PLAN.config().items())
        names = [resource.name for resource in resources]
        return [SimpleNamespace(resources=[(self.code, "", 2, name, entries) for name in names])]

    async def create_topics(self, topics: list[Any]) -> Any:
        Admin.listed = tuple(topic.name for topic in topics)
        return SimpleNamespace(topic_errors=[])


DENIED, UNKNOWN = 29, 3


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> type[Admin]:
    monkeypatch.setattr("connectors.kafka.topics.AIOKafkaAdminClient", Admin)
    monkeypatch.setattr(Admin, "listed", ())
    monkeypatch.setattr(Admin, "code", UNKNOWN)
    return Admin


@pytest.mark.parametrize(
    ("listed", "code", "error"),
    [
        ((), UNKNOWN, TopicGone),
        ((), DENIED, KafkaDenied),
        ((PLAN.name,), DENIED, KafkaDenied),
        ((PLAN.name,), UNKNOWN, KafkaLost),
    ],
)
async def test_a_topic_that_may_not_be_seen_is_not_one_that_has_vanished(
    broker: type[Admin], listed: tuple[str, ...], code: int, error: type[AqueductError]
) -> None:
    broker.listed, broker.code = listed, code
    with pytest.raises(error, match=PLAN.name):
        await Topics({}).ensure(PLAN, before={PLAN.name})
    assert broker.listed == listed


async def test_a_topic_that_is_only_checked_is_made_when_it_is_wanted(broker: type[Admin]) -> None:
    topics = Topics({})
    await topics.check(PLAN)
    assert not broker.listed
    await topics.ensure(PLAN)
    assert PLAN.name in broker.listed
    broker.listed = ()
    await topics.ensure(PLAN, before={PLAN.name})
    assert not broker.listed
