"""Existing topics that would lose or reorder records are refused."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from aiokafka.errors import for_code
from aiokafka.protocol.metadata import MetadataRequest

from connectors.errors import (
    AqueductError,
    KafkaDenied,
    KafkaLost,
    KafkaRefused,
    TooFewBrokers,
    TopicGone,
    TopicUnfit,
)
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


def described(plan: TopicPlan, config: dict[str, str], *, partitions: int = 4) -> list[str]:
    return list(faults(plan, TopicFacts(partitions, config)))


def test_a_topic_as_we_make_it_has_no_fault() -> None:
    assert described(PLAN, PLAN.config()) == []
    compacted = replace(PLAN, cleanup_policy="compact,delete", retention_ms=5)
    assert described(compacted, {**compacted.config(), "cleanup.policy": "delete,compact"}) == []


@pytest.mark.parametrize("partitions", [1, 3])
def test_fewer_partitions_are_refused_with_advice_that_keeps_order(partitions: int) -> None:
    written = replace(PLAN, may_have_more=True)
    for plan in (PLAN, written):
        (fault,) = described(plan, PLAN.config(), partitions=partitions)
        assert f"set it back to {partitions}" in fault
        assert "--alter --topic aq.shop.orders --partitions 4" in fault


def test_more_partitions_than_its_keys_are_in_are_taken_where_that_count_is_known() -> None:
    assert described(replace(PLAN, may_have_more=True), PLAN.config(), partitions=6) == []
    (fault,) = described(PLAN, PLAN.config(), partitions=6)
    assert "set topics.partitions to 6, with which it was made" in fault


@pytest.mark.parametrize("end", ["before", "after"])
def test_a_topic_that_may_refuse_the_markers_of_transactions_is_refused(end: str) -> None:
    name = f"message.timestamp.{end}.max.ms"
    (fault,) = described(PLAN, {**PLAN.config(), name: "1000"})
    assert f"{name} is 1000" in fault
    assert f"--add-config {name}=3600000" in fault
    for fit in ({name: "60000"}, {name: "1000", "message.timestamp.type": "LogAppendTime"}):
        assert described(PLAN, PLAN.config() | fit) == []


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


def test_a_compacted_topic_that_forgets_later_is_taken_with_a_warning_that_has_the_remedy() -> None:
    plan = replace(PLAN, compaction=SOON, max_message_bytes=10)
    assert slow_compaction(plan, TopicFacts(4, plan.config())) is None
    assert slow_compaction(PLAN, TopicFacts(4, {"delete.retention.ms": "86400000"})) is None
    slow = {**plan.config(), "delete.retention.ms": "86400000", "min.cleanable.dirty.ratio": "0.5"}
    result = slow_compaction(plan, TopicFacts(4, slow))
    assert result is not None
    assert "--add-config min.cleanable.dirty.ratio=0.1,delete.retention.ms=30" in result


@pytest.mark.parametrize("name", ["retention.ms", "retention.bytes"])
def test_a_topic_that_forgets_is_refused_with_the_command_that_repairs_it(name: str) -> None:
    (fault,) = described(PLAN, {**PLAN.config(), name: "604800000"})
    assert f"kafka-configs.sh --alter --topic aq.shop.orders --add-config {name}=-1" in fault


def test_a_topic_that_keeps_longer_than_asked_is_taken() -> None:
    week = replace(PLAN, retention_ms=604800000)
    assert described(week, WEEK) == []
    assert described(week, {**WEEK, "retention.ms": "-1"}) == []
    assert described(week, {**WEEK, "retention.ms": "604800001"}) == []
    assert len(described(week, {**WEEK, "retention.ms": "604799999"})) == 1


def test_compaction_where_history_is_wanted_is_refused() -> None:
    (fault,) = described(PLAN, {**PLAN.config(), "cleanup.policy": "compact"})
    assert "cleanup.policy=delete" in fault


def test_the_retention_of_a_topic_that_never_deletes_does_not_matter() -> None:
    journal = replace(PLAN, cleanup_policy="compact")
    assert described(journal, {"cleanup.policy": "compact", "retention.ms": "604800000"}) == []


def test_all_faults_of_a_topic_are_reported_at_once() -> None:
    assert (
        len(
            described(PLAN, {"cleanup.policy": "compact,delete", "retention.ms": "5"}, partitions=1)
        )
        == 3
    )


@pytest.mark.parametrize("name", ["max.message.bytes", "segment.bytes"])
def test_a_topic_that_no_marker_of_a_transaction_fits_in_is_not_written_to(name: str) -> None:
    (fault,) = described(PLAN, {name: "60"})
    assert f"kafka-configs.sh --alter --topic {PLAN.name} --add-config {name}=" in fault
    assert described(PLAN, {name: "200"}) == []
    assert len(described(replace(PLAN, takes_all=True), {name: "60"})) == 1


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
    absent = 3
    """The answer about a topic that does not exist."""
    answer: tuple[int, str | None] | None = None
    """The answer to a request to create a topic."""
    requests: ClassVar[list[int]] = []
    """The number of topics created by each request."""
    asked: ClassVar[list[str]] = []
    """The kinds of all requests, and the connections."""
    denied: tuple[str, ...] = ()
    """The topics whose settings, and partition counts, the account may not ask for or change."""
    refused: tuple[str, ...] = ()
    """The topics that are not created."""
    unready = 0
    """A broker's one answer about a partition that it leads."""

    def __init__(self, **_: Any) -> None:
        self.made: list[str] = []

    async def start(self) -> None:
        Admin.asked.append("connection")

    async def close(self) -> None:
        """Nothing to do."""

    def described(self, names: list[str]) -> dict[str, Any]:
        partitions = [
            {"leader": 1, "partition": at, "replicas": [1]} for at in range(PLAN.partitions)
        ]
        return {
            "topics": [
                {
                    "topic": name,
                    "error_code": 0 if name in self.listed else self.absent,
                    "partitions": partitions if name in self.listed else [],
                }
                for name in names
            ]
        }

    async def describe_configs(self, resources: list[Any]) -> list[Any]:
        Admin.asked.append("settings")
        entries = list(PLAN.config().items())
        codes = {one.name: DENIED if one.name in self.denied else self.code for one in resources}
        found = [(code, "", 2, name, entries) for name, code in codes.items()]
        return [SimpleNamespace(resources=found)]

    async def create_partitions(self, counts: dict[str, Any]) -> None:
        Admin.asked.append("partitions")
        for name in counts:
            if name in self.denied:
                raise for_code(DENIED)(f"Could not create partitions for {name}")

    async def create_topics(self, topics: list[Any]) -> Any:
        if sum(topic.num_partitions for topic in topics) > 10_000:
            return SimpleNamespace(topic_errors=[(topic.name, 44, "Excess") for topic in topics])
        if self.answer:
            Admin.listed += tuple(topic.name for topic in topics if self.answer[0] == 36)
            return SimpleNamespace(topic_errors=[(topic.name, *self.answer) for topic in topics])
        made = [topic.name for topic in topics if topic.name not in self.refused]
        if len(made) < len(topics):
            Admin.listed += tuple(made)
            answers = [
                (one.name, 0 if one.name in made else 44, "in its own words") for one in topics
            ]
            return SimpleNamespace(topic_errors=answers)
        Admin.listed += tuple(topic.name for topic in topics)
        Admin.requests.append(len(topics))
        return SimpleNamespace(topic_errors=[(topic.name, 0, None) for topic in topics])

    async def _send_request(self, request: Any, _node: int = 0) -> Any:
        """Topics; or each partition's end, where a leader may not know yet that it leads."""
        if isinstance(request, MetadataRequest):
            assert request._allow_auto_topic_creation is False
            Admin.asked.append("topics")
            found = self.described(request._topics or [])
            return SimpleNamespace(to_object=lambda: found)
        code, Admin.unready = Admin.unready, 0
        topics = [(name, [(at, code) for at, _ in each]) for name, each in request._topics]
        return SimpleNamespace(topics=topics)


DENIED, UNKNOWN = 29, 3


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> type[Admin]:
    monkeypatch.setattr("connectors.kafka.topics.AIOKafkaAdminClient", Admin)
    monkeypatch.setattr(Admin, "listed", ())
    monkeypatch.setattr(Admin, "code", UNKNOWN)
    monkeypatch.setattr(Admin, "answer", None)
    monkeypatch.setattr(Admin, "requests", [])
    monkeypatch.setattr(Admin, "asked", [])
    monkeypatch.setattr(Admin, "denied", ())
    monkeypatch.setattr(Admin, "refused", ())
    monkeypatch.setattr(Admin, "unready", 0)
    monkeypatch.setattr(Admin, "absent", UNKNOWN)
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


async def test_a_topic_that_the_account_may_not_describe_is_not_made(broker: type[Admin]) -> None:
    broker.absent = DENIED
    with pytest.raises(KafkaDenied, match=PLAN.name):
        await Topics({}).ensure(PLAN)
    assert not broker.requests


async def test_a_topic_that_is_only_checked_is_made_when_it_is_wanted(broker: type[Admin]) -> None:
    topics = Topics({})
    await topics.check(PLAN)
    assert not broker.listed
    await topics.ensure(PLAN)
    assert PLAN.name in broker.listed
    broker.listed = ()
    await topics.ensure(PLAN, before={PLAN.name})
    assert not broker.listed


async def test_many_topics_are_made_in_requests_that_a_controller_takes(
    broker: type[Admin],
) -> None:
    plans = [replace(PLAN, name=f"aq.shop.t{number}") for number in range(3000)]
    await Topics({}).ensure(*plans)
    assert sum(broker.requests) == len(set(broker.listed)) == 3000
    assert max(broker.requests) * PLAN.partitions <= 1000


async def test_a_topic_larger_than_a_portion_is_made_by_itself(broker: type[Admin]) -> None:
    large = replace(PLAN, name="aq.shop.large", partitions=5000)
    await Topics({}).ensure(PLAN, large, replace(PLAN, name="aq.shop.last"))
    assert broker.requests == [1, 1, 1]


async def test_a_leader_that_does_not_know_yet_that_it_leads_is_waited_for(
    broker: type[Admin],
) -> None:
    broker.unready = 6
    await Topics({}).ensure(PLAN)
    assert broker.unready == 0
    assert PLAN.name in broker.listed


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (41, KafkaLost),
        (7, KafkaLost),
        (89, KafkaLost),
        (38, TooFewBrokers),
        (29, KafkaDenied),
        (40, KafkaRefused),
        (44, KafkaRefused),
    ],
)
async def test_a_topic_that_cannot_be_made_stops_only_for_what_an_operator_must_change(
    broker: type[Admin], code: int, error: type[AqueductError]
) -> None:
    broker.answer = (code, "in its own words")
    with pytest.raises(error, match="in its own words") as caught:
        await Topics({}).ensure(PLAN)
    assert type(caught.value) is error
    assert caught.value.context["topic"] == PLAN.name


@pytest.mark.remedy("KafkaRefused")
async def test_a_topic_that_the_brokers_do_not_allow_is_refused_until_it_is_made_by_hand(
    broker: type[Admin],
) -> None:
    broker.answer = (44, "no more than 4 partitions")
    with pytest.raises(KafkaRefused, match=r"create the topic by hand.*destination restart"):
        await Topics({}).ensure(PLAN)
    broker.listed, broker.code = (PLAN.name,), 0
    await Topics({}).ensure(PLAN)


async def test_a_topic_that_another_client_has_made_meanwhile_counts_as_made(
    broker: type[Admin],
) -> None:
    broker.answer = (36, None)
    await Topics({}).ensure(PLAN)


async def test_an_unfit_topic_keeps_no_other_from_being_used(broker: type[Admin]) -> None:
    fit, unfit = PLAN, replace(PLAN, name="aq.shop.unfit", partitions=7)
    broker.listed, broker.code = (fit.name, unfit.name), 0
    topics = Topics({})
    with pytest.raises(TopicUnfit, match=unfit.name):
        await topics.ensure(fit, unfit)
    broker.listed = ()
    await topics.ensure(fit, before={fit.name})


NAMES = [f"aq.shop.t{number}" for number in range(1000)]


async def test_a_thousand_topics_are_looked_at_in_a_few_requests(broker: type[Admin]) -> None:
    plans = [replace(PLAN, name=name) for name in NAMES]
    broker.listed, broker.code = tuple(NAMES), 0
    topics = Topics({})
    assert await topics.unfit(*plans) == {}
    assert sorted(broker.asked) == ["connection", "settings", "settings", "topics", "topics"]
    assert await topics.unfit(*plans) == {}
    assert await topics.grow(dict.fromkeys(NAMES, PLAN.partitions)) == {}
    assert sorted(broker.asked[5:]) == ["connection", "topics", "topics"]


async def test_the_trouble_of_topics_is_of_each_by_itself_and_the_others_are_made(
    broker: type[Admin],
) -> None:
    names = {
        one: f"aq.shop.{one}" for one in ("fit", "unfit", "few", "hidden", "lost", "new", "no")
    }
    broker.listed, broker.code = tuple(names[one] for one in ("fit", "unfit", "few", "hidden")), 0
    broker.denied, broker.refused = (names["hidden"],), (names["no"],)
    plans = [replace(PLAN, name=name) for name in names.values()]
    plans[1:3] = [replace(plan, partitions=7) for plan in plans[1:3]]
    topics = Topics({})
    found = await topics.unfit(*plans, before={names["lost"]})
    assert {name.removeprefix("aq.shop."): type(one) for name, one in found.items()} == {
        "unfit": TopicUnfit,
        "few": TopicUnfit,
        "hidden": KafkaDenied,
        "lost": TopicGone,
        "no": KafkaRefused,
    }
    for name, error in found.items():
        others = {*names.values()} - {name}
        assert name in str(error) or error.context["topic"] == name
        assert not any(one in error.in_one_line for one in others)
    assert names["new"] in broker.listed
    assert names["lost"] not in broker.listed
    # What was found fit, or made, is not looked at again.
    count = len(broker.asked)
    assert await topics.unfit(plans[0], plans[5]) == {}
    assert len(broker.asked) == count
    with pytest.raises(TopicUnfit, match=r"(?s)unfit: .*\n  - aq\.shop\.few: "):
        await topics.check(*plans[1:3])


async def test_a_broker_that_does_not_know_a_topic_yet_is_asked_again(broker: type[Admin]) -> None:
    broker.listed = (PLAN.name,)
    with pytest.raises(KafkaLost, match=PLAN.name):
        await Topics({}).unfit(PLAN)


async def test_a_topic_whose_settings_may_not_be_read_hides_those_of_no_other(
    broker: type[Admin],
) -> None:
    broker.listed, broker.code, broker.denied = (PLAN.name, "aq.hidden"), 0, ("aq.hidden",)
    found = await Topics({}).digests([PLAN.name, "aq.hidden", "aq.none"])
    assert found.keys() == {PLAN.name}
    assert found == await Topics({}).digests([PLAN.name])


async def test_a_topic_that_may_not_grow_keeps_no_other_from_growing(broker: type[Admin]) -> None:
    broker.listed, broker.code, broker.denied = (PLAN.name, "aq.denied"), 0, ("aq.denied",)
    counts = dict.fromkeys((PLAN.name, "aq.denied", "aq.none"), PLAN.partitions + 1)
    (error,) = (await Topics({}).grow(counts)).values()
    assert isinstance(error, KafkaDenied)
    assert error.advice == "Grant it Alter on the topic."
    assert error.context["topic"] == "aq.denied"
    assert broker.asked.count("partitions") == 2
