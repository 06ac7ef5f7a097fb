"""The takeover: its waits and its steps in order, without Kafka and MySQL."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Container, Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.worker.coordination.write_permit import WritePermit
from app.worker.coordination.zookeeper_lease import PermanentLease
from app.worker.destination.failover.source_selection import Sources
from app.worker.destination.plan import Failover, Plan, Signals, SnapshotPlan, Source
from app.worker.destination.takeover.initial_state import InitialState
from app.worker.destination.takeover.source_answers import SourceAnswers
from app.worker.destination.takeover.takeover import HistoryReading, Takeover
from app.worker.destination.takeover.timings import Phases
from app.worker.status import DestinationStatus
from connectors.errors import (
    AqueductError,
    HistoryTooShort,
    JournalDamaged,
    JournalTooNew,
    JournalUnreadable,
    KafkaDenied,
    MappingError,
    PositionPurged,
    PositionUnknown,
    RunRestarts,
    SourceLost,
    StateUnknown,
    TopicGone,
    TopicReplaced,
    TopicUnusable,
)
from connectors.kafka.reading import StoredRecord
from connectors.kafka.topics import TopicPlan
from connectors.mysql.lookup.start import AtCoordinates, Earliest, Latest
from connectors.mysql.position import Coordinates, SourceOffset
from connectors.mysql.server.connection import SourceAddress
from connectors.mysql.server.facts import ServerFacts
from tables.history.history import SchemaHistory
from tables.journal_format import Entry, is_tombstone
from tables.rules.mapping.forms import from_yaml
from tables.rules.routes.routes import Routes
from tables.rules.table_version import TableVersion
from tables.state.cursor import Cursor, next_epoch
from tables.state.journal import state as journal
from tables.state.journal.checkpoint import MemoryCheckpoint
from tables.state.journal.records import installation_key
from tables.state.journal.state import DestinationState, JournalPartition, fold
from tables.state.known_topics import KnownTopic
from tables.state.known_topics import note_of as topic_note
from tables.state.operator_requests import (
    RECOVERY_PART,
    Current,
    HistoryRecovery,
    recovery_note,
    source_note,
)
from tables.state.quarantine import GIVE_UP, Outcome, Resolution
from tables.state.quarantine import Entry as Quarantined
from tables.state.quarantine import note_of as quarantine_note
from tests.properties.app.interleaved.worker import PLANS
from tests.unit.tables.made import at, begun, table
from wire.table_version import Definition

SERVER = "aaaaaaaa-0000-0000-0000-000000000001"
SLOW = 3.0
"""Seconds for which a server that does not answer is waited for."""


class Scene:
    """A destination with two sources, and what was asked of whom."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self.asked: list[str] = []
        self.silent: set[str] = set()
        self.grown: dict[str, int] = {}
        """Topics of which more partitions were asked for."""
        self.denied: set[str] = set()
        """Topics that may not get more partitions."""
        self.ids: dict[str, str] = {}
        """Kafka's ids of topics."""
        self.lacking: tuple[TableVersion, ...] = ()
        """Table versions that the claim publishes again."""
        self.gone: set[str] = set()
        """Topics that do not exist."""
        self.released = threading.Event()
        self.installation = "i"
        """By the journal."""
        self.records: list[StoredRecord] = []
        """Of the journal."""
        self.claimed: list[Cursor] = []
        self.noted: list[Entry] = []
        """What the claim has beside the cursor."""
        self.status = DestinationStatus("shop")
        self.checkpoint = MemoryCheckpoint()
        self.signals = Signals(permit=WritePermit(lease=PermanentLease()))
        self.plan = cast(
            Plan,
            SimpleNamespace(
                name="shop",
                worker="w",
                reached_at="",
                topics=PLANS,
                journal=JournalPartition.of("shop", PLANS.journal(), {}),
                kafka_options={},
                compression=None,
                history=None,
                sources=tuple(Source(address=address(one), start=Latest()) for one in "ab"),
                failover=Failover(retries=1),
                rules=SimpleNamespace(routes=Routes(prefix="aq", include="")),
                accepts=lambda _: False,
                snapshot=SnapshotPlan(),
                all_destinations=frozenset({"shop"}),
                merges=frozenset(),
            ),
        )
        self.sources = Sources(self.plan)
        self._put_in(monkeypatch)

    def _put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scene = self

        class Producer:
            def __init__(self, name: str, **_: Any) -> None:
                self._name = name

            async def init_transactions(self) -> None:
                scene.events.append(f"took over {self._name}")

            async def discard(self) -> None:
                pass

        class Topics:
            checked: frozenset[str] | set[str] = frozenset()

            def __init__(self, _: Mapping[str, Any], **_report: object) -> None:
                pass

            async def ensure(self, *plans: TopicPlan, before: Container[str] = ()) -> None:
                made = [plan.name for plan in plans if plan.name not in self.checked]
                if gone := [name for name in made if name in before]:
                    raise TopicGone(topic=gone[0])

            async def ids(self, names: Container[str]) -> dict[str, str]:
                return {name: one for name, one in scene.ids.items() if name in names}

            async def grow(self, counts: Mapping[str, int]) -> dict[str, AqueductError]:
                denied = scene.denied & counts.keys()
                scene.grown.update({one: n for one, n in counts.items() if one not in denied})
                scene.events.append("grown")
                return {name: KafkaDenied("Alter", topic=name) for name in denied}

            async def check(self, *plans: TopicPlan) -> None:
                await asyncio.sleep(0.05)
                self.checked = {plan.name for plan in plans} - scene.gone
                scene.events.append("topics checked")

        async def installation_of(*_: Any, **__: Any) -> str:
            scene.events.append("asked for the installation")
            return scene.installation

        async def read_each(
            *_: Any, start: int, take: Callable[[StoredRecord], object], **__: Any
        ) -> int:
            found = [one for one in scene.records if one.offset >= start]
            for record in found:
                take(record)
            return len(found)

        async def asks_for(_: Any, topic: str, *__: Any, **___: Any) -> None:
            scene.events.append(f"asked for {topic}")

        async def nothing(_: Any) -> None:
            pass

        def asked(_: SourceAnswers, source: Source) -> tuple[SourceAddress, ServerFacts]:
            host = source.address.host
            scene.asked.append(host)
            if host in scene.silent:
                scene.released.wait(SLOW)
                raise SourceLost("timed out")
            return source.address, cast(
                ServerFacts,
                SimpleNamespace(server_uuid=SERVER, has_gtids=True, inactive_roles=()),
            )

        def opening(**_: Any) -> Any:
            return SimpleNamespace(open=lambda _: InitialState(cursor=cursor("i"), history=None))

        def publisher(*_: Any, cursor: Cursor, **__: Any) -> Any:
            scene.claimed.append(cursor)

            async def claim(notes: list[Entry], versions: tuple[TableVersion, ...]) -> None:
                scene.noted, scene.lacking = notes, versions
                scene.events.append("claimed")

            async def none(*_: Any) -> dict[str, Any]:
                return {}

            return SimpleNamespace(claim=claim, written={}, unusable=none, digests=none)

        class Others:
            def __init__(self, *_: Any) -> None:
                pass

            async def check(self, _last: Any, *, had_led: bool) -> None:
                pass

        monkeypatch.setattr("app.worker.destination.takeover.takeover.OtherWorkers", Others)
        monkeypatch.setattr(
            "app.worker.destination.takeover.takeover.TransactionalProducer", Producer
        )
        monkeypatch.setattr("app.worker.destination.takeover.takeover.Topics", Topics)
        monkeypatch.setattr(
            "app.worker.destination.takeover.takeover.installation_of", installation_of
        )
        monkeypatch.setattr("tables.state.journal.state.read_each", read_each)
        monkeypatch.setattr("app.worker.destination.takeover.journal_verification.end_of", asks_for)
        monkeypatch.setattr(
            "app.worker.destination.takeover.journal_verification.read_first", asks_for
        )
        monkeypatch.setattr(
            "app.worker.destination.takeover.journal_verification.Published",
            lambda **_: SimpleNamespace(check=nothing),
        )
        monkeypatch.setattr(
            "app.worker.destination.takeover.source_answers.SourceAnswers.query", asked
        )
        monkeypatch.setattr("app.worker.destination.takeover.takeover.InitialStateBuilder", opening)
        monkeypatch.setattr("app.worker.destination.takeover.takeover.Publisher", publisher)

    def write(self, *entries: tuple[bytes, bytes], is_folded: bool = True) -> None:
        """Put records into the journal, and into the tables if they got that far."""
        for entry in entries:
            record = StoredRecord(*entry, len(self.records))
            self.records.append(record)
            if is_folded:
                self.checkpoint.fold(record)

    async def lead(self) -> str:
        """Take the lead, within less than a server that does not answer takes; which one is read then."""
        leading = Takeover(
            plan=self.plan,
            checkpoint=self.checkpoint,
            signals=self.signals,
            sources=self.sources,
            status=self.status,
            phases=Phases(),
        )
        try:
            async with asyncio.timeout(SLOW / 2), leading.lead([]) as led:
                return led.address.host
        finally:
            self.released.set()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def address(name: str) -> SourceAddress:
    return SourceAddress(host=name, port=3306, user="u", password="", server_id=5, replica_uuid="")


def cursor(installation: str) -> Cursor:
    return Cursor(
        destination="shop",
        installation=installation,
        epoch=1,
        seq=0,
        versions=0,
        offset=SourceOffset(
            server_uuid=SERVER, coordinates=Coordinates("binlog.000001", 4), gtid_set=None
        ),
    )


def cursor_note(installation: str = "i") -> tuple[bytes, bytes]:
    return journal.cursor_key("shop"), journal.encoded(cursor(installation).to_json())


def installation_note(installation: str) -> tuple[bytes, bytes]:
    return installation_key(installation), journal.encoded({"installation": installation})


def reads(name: str) -> tuple[bytes, bytes]:
    current = Current(
        destination="shop", address=f"{name}:3306", server_uuid=SERVER, why="", ts_ms=1
    )
    return source_note(current)


async def test_one_that_was_given_up_by_its_heartbeat_is_not_waited_for(scene: Scene) -> None:
    scene.write(installation_note("i"), cursor_note())
    scene.silent.add("a")
    scene.sources.silent()
    assert await scene.lead() == "b"


async def test_an_earlier_one_is_gone_back_to_though_the_present_one_is_silent(
    scene: Scene,
) -> None:
    scene.write(installation_note("i"), cursor_note(), reads("b"))
    scene.sources.current = scene.sources.sources[1]
    scene.silent.add("b")
    scene.sources.go_back()
    assert await scene.lead() == "a"


async def test_one_that_the_journal_does_not_name_is_not_asked(scene: Scene) -> None:
    scene.write(installation_note("i"), cursor_note(), reads("b"))
    assert await scene.lead() == "b"
    assert scene.asked == ["b"]


async def test_where_the_tables_know_nothing_the_journal_says_who_is_asked(scene: Scene) -> None:
    scene.write(installation_note("i"), cursor_note(), reads("b"), is_folded=False)
    assert await scene.lead() == "b"
    assert scene.asked == ["b"]


async def test_where_the_tables_lag_the_journal_says_who_is_read(scene: Scene) -> None:
    scene.write(installation_note("i"), cursor_note())
    scene.write(reads("b"), is_folded=False)
    scene.silent.add("a")
    assert await scene.lead() == "b"


async def test_an_installation_that_is_known_in_advance_is_confirmed_beside_the_rest(
    scene: Scene,
) -> None:
    scene.signals.installation = "i"
    scene.write(installation_note("i"), cursor_note(), is_folded=False)
    await scene.lead()
    assert scene.events[0] == "took over i.shop"
    assert scene.events.count("asked for the installation") == 1


@pytest.mark.parametrize("has_cursor", [True, False])
async def test_tables_of_another_journal_are_believed_once_at_most(
    scene: Scene, has_cursor: bool
) -> None:
    scene.write(installation_note("j"))
    scene.records.clear()
    if has_cursor:
        scene.write(cursor_note("i"))
    with pytest.raises(RunRestarts, match="as the journal is of i, not of j"):
        await scene.lead()
    assert "claimed" not in scene.events
    await scene.lead()
    assert scene.events[-1] == "claimed"


async def test_no_topic_is_asked_for_before_it_is_made(scene: Scene) -> None:
    scene.write(installation_note("i"))
    await scene.lead()
    first = next(n for n, event in enumerate(scene.events) if event.startswith("asked for aq."))
    assert scene.events.index("topics checked") < first


@pytest.mark.parametrize("has_past", [True, False])
async def test_a_topic_of_a_destination_is_made_once_in_its_life(
    scene: Scene, has_past: bool
) -> None:
    scene.write(installation_note("i"), *([cursor_note("i")] if has_past else []))
    gone = "aq.__ddl.shop"
    scene.gone = {gone}
    if not has_past:
        await scene.lead()
        return
    with pytest.raises(TopicGone) as error:
        await scene.lead()
    assert error.value.context["topic"] == gone
    assert "claimed" not in scene.events


async def test_the_topic_of_a_tag_that_is_added_again_has_the_partitions_of_its_rows(
    scene: Scene,
) -> None:
    rules = "{tables: {shop.orders: {topic: t, partitions: 4, tags: {'': x}, tag_topics: [x]}}}"
    cast(Any, scene.plan).rules.routes = Routes(
        prefix="aq", destination="shop", mapping=from_yaml(rules)
    )
    version = TableVersion(
        destination="shop", database="shop", table="orders", version=1, topic="aq.t",
        definition=Definition(columns=(), primary_key=()),
        gtid=None, coordinates=Coordinates("b.000001", 4), ts_ms=1, partitions=4,
    )  # fmt: skip
    scene.write(
        installation_note("i"),
        cursor_note(),
        (journal.version_key(version), journal.encoded(version.to_json())),
    )
    await scene.lead()
    assert scene.grown == {"aq.__tag.x.t": 4}
    assert scene.events.index("grown") < scene.events.index("claimed")


async def test_an_epoch_is_claimed_that_an_older_copy_of_the_journal_cannot_claim_again(
    scene: Scene,
) -> None:
    scene.write(installation_note("i"), cursor_note())
    before = int(time.time())
    await scene.lead()
    (claimed,) = scene.claimed
    assert claimed.epoch >= before
    assert claimed.written_ms is not None


@pytest.mark.parametrize(
    ("last", "term", "now", "epoch"),
    [(1, 0, 1000.9, 1000), (1000, 0, 1000.0, 1001), (5, 1 << 40, 1000.0, 1 << 40), (7, 3, 0.0, 8)],
)
def test_an_epoch_is_greater_than_the_last_one_and_than_any_that_a_lost_journal_may_have_held(
    last: int, term: int, now: float, epoch: int
) -> None:
    assert next_epoch(last, term=term, now=now) == epoch


DAMAGED = b"history/shop/s/b.000001/4"


@pytest.mark.parametrize("recovers", [True, False])
async def test_a_recovery_is_claimed_with_the_removal_of_what_cannot_be_read(
    scene: Scene, recovers: bool
) -> None:
    cast(Any, scene.plan).snapshot = SnapshotPlan(recovers=recovers)
    counted = replace(cursor("i"), history=1)
    scene.write(installation_note("i"), (DAMAGED, b"not json"))
    scene.write((journal.cursor_key("shop"), journal.encoded(counted.to_json())))
    if not recovers:
        with pytest.raises(JournalUnreadable, match=r"snapshot\.mode to recovery"):
            await scene.lead()
        assert "claimed" not in scene.events
        return
    await scene.lead()
    keys = [key for key, _ in scene.noted]
    assert keys[:2] == [DAMAGED, b"recovery/shop/last"]
    (warning,) = scene.status.warnings["recovery"]
    assert "JournalUnreadable" in warning


async def test_a_recovery_without_a_cursor_is_refused_where_it_would_begin_at_the_end(
    scene: Scene,
) -> None:
    cast(Any, scene.plan).snapshot = SnapshotPlan(recovers=True)
    scene.write(installation_note("i"))
    with pytest.raises(StateUnknown):
        await scene.lead()
    assert "claimed" not in scene.events


TOPIC_VERSION = TableVersion(
    destination="shop", database="shop", table="orders", version=1, topic="aq.shop.orders",
    definition=Definition(columns=(), primary_key=()),
    gtid=None, coordinates=Coordinates("b.000001", 4), ts_ms=1, partitions=2,
)  # fmt: skip


def known_topic(name: str, number: str, *, lacks_versions: bool = False) -> Entry:
    one = KnownTopic(
        destination="shop", topic=name, id=number, ts_ms=1, lacks_versions=lacks_versions
    )
    return topic_note(one)


@pytest.mark.parametrize("name", ["aq.shop.orders", "aq.__ddl.shop", "aq.__schemas"])
async def test_a_topic_that_was_made_again_is_refused_before_an_epoch_is_claimed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("app.worker.pipeline.publish.topic_ids._AGAIN_SECONDS", 0.01)
    cast(Any, scene.plan).rules.routes = Routes(prefix="aq")
    version = journal.version_key(TOPIC_VERSION), journal.encoded(TOPIC_VERSION.to_json())
    scene.write(installation_note("i"), cursor_note(), version, known_topic(name, "1"))
    scene.ids = {name: "2", "aq.__journal": "5"}
    # Of a topic of rows, the next run quarantines its tables.
    kind = TopicUnusable if name == "aq.shop.orders" else TopicReplaced
    with pytest.raises(kind, match="accept-topic shop aq") as error:
        await scene.lead()
    assert name in str(error.value)
    assert "claimed" not in scene.events
    tables = "snapshot start shop shop.orders" if name == "aq.shop.orders" else "start"
    assert (tables in str(error.value)) is (name == "aq.shop.orders")


GIVEN_UP = Quarantined(
    destination="shop",
    name=("shop", "orders"),
    since=at(200),
    why="its columns differ",
    outcome=Outcome.GIVEN_UP,
    resolution="r1",
)
IN_ONE_TOPIC = "{topic: t, share_topic: true, partitions: 4, tags: {'': x}, tag_topics: [x]}"


@pytest.mark.parametrize("fault", ["made again", "denied"])
@pytest.mark.parametrize("other", ["", "items"])
async def test_a_table_that_was_given_up_does_not_wait_for_its_topic(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, fault: str, other: str
) -> None:
    monkeypatch.setattr("app.worker.pipeline.publish.topic_ids._AGAIN_SECONDS", 0.01)
    names = ["orders", *([other] if other else [])]
    rules = ", ".join(f"shop.{name}: {IN_ONE_TOPIC}" for name in names)
    mapping = from_yaml(f"{{tables: {{{rules}}}}}")
    cast(Any, scene.plan).rules.routes = Routes(prefix="aq", destination="shop", mapping=mapping)
    versions = [replace(TOPIC_VERSION, table=name, topic="aq.t", partitions=4) for name in names]
    scene.write(
        installation_note("i"), cursor_note(), known_topic("aq.t", "1"), quarantine_note(GIVEN_UP),
        *((journal.version_key(one), journal.encoded(one.to_json())) for one in versions),
    )  # fmt: skip
    scene.ids = {"aq.t": "2" if fault == "made again" else "1", "aq.__journal": "5"}
    scene.denied = {"aq.__tag.x.t"} if fault == "denied" else set()
    if not other:
        await scene.lead()
        assert scene.events[-1] == "claimed"
        return
    with pytest.raises(TopicUnusable) as raised:
        await scene.lead()
    assert [one.name_of_table for one in (raised.value, *raised.value.others)] == [("shop", other)]


@pytest.mark.parametrize(
    ("entry", "resolution", "waits"),
    [
        (GIVEN_UP, {"table": table()}, True),
        (replace(GIVEN_UP, outcome=Outcome.WAITING, is_by_topic=True), {"source": GIVE_UP}, False),
    ],
)
async def test_an_operator_brings_back_a_table_only_with_a_topic_and_gives_it_up_without(
    scene: Scene, entry: Quarantined, resolution: dict[str, Any], *, waits: bool
) -> None:
    mapping = from_yaml(f"{{tables: {{shop.orders: {IN_ONE_TOPIC}}}}}")
    cast(Any, scene.plan).rules.routes = Routes(prefix="aq", destination="shop", mapping=mapping)
    version = replace(TOPIC_VERSION, topic="aq.t", partitions=4)
    given = {"table": None, "by": "anna", "ts_ms": 5, **resolution}
    scene.write(
        installation_note("i"), cursor_note(),
        (journal.version_key(version), journal.encoded(version.to_json())),
        quarantine_note(entry),
        quarantine_note(Resolution(destination="shop", name=entry.name, id="r2", **given)),
    )  # fmt: skip
    scene.denied = {"aq.__tag.x.t"}
    with pytest.raises(TopicUnusable) if waits else nullcontext():
        await scene.lead()
    assert ("claimed" in scene.events) is not waits


async def test_the_ids_of_topics_are_noted_with_the_claim_that_first_sees_them(
    scene: Scene,
) -> None:
    cast(Any, scene.plan).rules.routes = Routes(prefix="aq")
    version = journal.version_key(TOPIC_VERSION), journal.encoded(TOPIC_VERSION.to_json())
    scene.write(
        installation_note("i"), cursor_note(), version, known_topic("aq.__ddl.shop", "1"),
        # A table that is published elsewhere by now, or never was.
        known_topic("aq.shop.other", "3"),
    )  # fmt: skip
    scene.ids = {
        "aq.shop.orders": "7", "aq.__ddl.shop": "1", "aq.shop.other": "4", "aq.__journal": "5"
    }  # fmt: skip
    await scene.lead()
    noted = {key for key, _ in scene.noted if key.startswith(b"topic/")}
    assert noted == {b"topic/shop/aq.shop.orders"}


async def test_all_versions_are_published_again_once_their_new_topic_is_accepted(
    scene: Scene,
) -> None:
    versions = [replace(TOPIC_VERSION, version=number) for number in (1, 2)]
    scene.write(
        installation_note("i"), cursor_note(),
        *((journal.version_key(one), journal.encoded(one.to_json())) for one in versions),
        known_topic("aq.__schemas", "2", lacks_versions=True),
    )  # fmt: skip
    scene.ids = {"aq.__schemas": "2"}
    await scene.lead()
    assert list(scene.lacking) == versions
    (noted,) = [value for key, value in scene.noted if key == b"topic/shop/aq.__schemas"]
    assert b'"lacks_versions":false' in noted


@pytest.mark.parametrize(("key", "is_refused"), [("region", True), ("id", False)])
async def test_a_mapping_that_returns_to_a_topic_with_other_keys_is_refused_before_the_claim(
    scene: Scene, *, key: str, is_refused: bool
) -> None:
    def routes(rule: str) -> Routes:
        mapping = from_yaml(f"{{tables: {{shop.orders: {{{rule}}}}}}}")
        return Routes(prefix="aq", destination="shop", mapping=mapping)

    versions = []
    for number, rule in enumerate(("topic: t, key: [id]", "topic: u, key: [id]"), 1):
        route = routes(rule).of(("shop", "orders"))
        assert route is not None
        definition = Definition(columns=(), primary_key=("id",))
        versions.append(
            replace(
                TOPIC_VERSION,
                version=number,
                topic=route.topic,
                stated=route.stated,
                definition=definition,
            )
        )
    scene.write(
        installation_note("i"), cursor_note(),
        *((journal.version_key(one), journal.encoded(one.to_json())) for one in versions),
    )  # fmt: skip
    cast(Any, scene.plan).rules.routes = routes(f"topic: t, key: [{key}], partitions: 2")
    if is_refused:
        with pytest.raises(MappingError, match=r"shop\.orders in aq\.t: their columns are region"):
            await scene.lead()
        assert "claimed" not in scene.events
        return
    await scene.lead()
    (warning,) = scene.status.warnings["returned"]
    assert warning.startswith(
        "shop.orders returns to aq.t, which lacks its changes since version 1"
    )
    assert warning.endswith("snapshot start shop shop.orders --replace")


CURSOR = Cursor(
    destination="shop",
    installation="i",
    epoch=4,
    seq=9,
    versions=0,
    offset=SourceOffset(server_uuid="s", coordinates=Coordinates("b.000001", 4), gtid_set=None),
)
UNREADABLE = JournalUnreadable("x", key="history/shop/s/b/4")
AGAIN = "without history"
Open = Callable[[DestinationState], InitialState]


class Journal:
    """A journal, whose reading fails as is wanted, and what was asked of it."""

    def __init__(self, *, has_cursor: bool = True) -> None:
        self.state = DestinationState("shop")
        if has_cursor:
            self.state.cursor = CURSOR
        self.errors: dict[str, AqueductError] = {}
        self.asked: list[str] = []

    async def read(
        self, *, whole_history: bool = False, without_history: bool = False
    ) -> DestinationState:
        how = AGAIN if without_history else "whole" if whole_history else "newest"
        self.asked.append(how)
        if how in self.errors:
            raise self.errors[how]
        return self.state

    def reading(self, *, recovers: bool = True) -> HistoryReading:
        return HistoryReading(destination="shop", recovers=recovers, read=self.read)

    def ran(self, reading: HistoryReading, opened: InitialState) -> list[HistoryRecovery]:
        """Commit the notes of a run; return the recoveries among them."""
        notes = reading.notes(self.state, opened)
        records = [StoredRecord(*note, at) for at, note in enumerate(notes)]
        found = [fold("shop", [record]).parts[RECOVERY_PART].last for record in records]
        state = fold("shop", [StoredRecord(*recovery_note(one), 1) for one in found if one])
        if state.parts[RECOVERY_PART].last is not None:
            state.cursor = CURSOR
            self.state = state
        return [one for one in found if one is not None]


def opened(history: SchemaHistory | None = None) -> InitialState:
    return InitialState(cursor=CURSOR, history=history)


async def run(journal: Journal, *, recovers: bool = True) -> list[HistoryRecovery]:
    reading = journal.reading(recovers=recovers)
    state = await reading.state()
    _, found = await reading.opened(state, lambda _: opened(begun("orders")))
    return journal.ran(reading, found)


async def test_it_begins_again_once_until_the_mode_was_another() -> None:
    journal = Journal()
    (recovery,) = await run(journal)
    assert journal.asked == ["newest", AGAIN]
    assert (recovery.why, recovery.at) == ("snapshot.mode is recovery", str(CURSOR.offset))
    for _ in range(2):
        journal.asked.clear()
        assert await run(journal) == []
        assert journal.asked == ["newest"]
    (ended,) = await run(journal, recovers=False)
    assert ended == replace(recovery, is_requested=False)
    assert await run(journal, recovers=False) == []
    journal.asked.clear()
    assert len(await run(journal)) == 1
    assert journal.asked == ["newest", AGAIN]


@pytest.mark.parametrize("error", [UNREADABLE, JournalDamaged("its cursor counts 3 records")])
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_history_that_cannot_be_read_begins_again_each_time(
    error: JournalDamaged, is_done: bool
) -> None:
    journal = Journal()
    if is_done:
        await run(journal)
    journal.errors["newest"] = error
    (recovery,) = await run(journal)
    assert error.name in recovery.why
    assert error.detail in recovery.why


@pytest.mark.parametrize("error", [UNREADABLE, JournalTooNew("format 9")])
async def test_damage_that_is_not_of_the_history_stays_an_error(error: AqueductError) -> None:
    journal = Journal()
    journal.errors = {"newest": error, AGAIN: error}
    with pytest.raises(type(error)):
        await journal.reading().state()
    # Neither is any without the mode.
    journal.errors = {"newest": error}
    with pytest.raises(type(error)):
        await journal.reading(recovers=False).state()
    assert journal.asked.count(AGAIN) == (0 if isinstance(error, JournalTooNew) else 1)


def fails(*errors: AqueductError) -> Open:
    """An opening that fails so often, and then does not."""
    left = list(errors)

    def open_(_: DestinationState) -> InitialState:
        if left:
            raise left.pop(0)
        return opened(begun("orders"))

    return open_


async def recovered(journal: Journal, open_: Open, *, recovers: bool = True) -> HistoryReading:
    """Open after a run that has carried the request out."""
    if recovers:
        await run(journal)
    journal.asked.clear()
    reading = journal.reading(recovers=recovers)
    state = await reading.state()
    await reading.opened(state, open_)
    return reading


async def test_a_history_that_begins_after_the_cursor_is_read_whole_before_it_begins_again() -> (
    None
):
    short = HistoryTooShort("it begins at b.000002:4")
    journal = Journal()
    assert (await recovered(journal, fails(short), recovers=False)).why is None
    assert journal.asked == ["newest", "whole"]
    with pytest.raises(HistoryTooShort):
        await recovered(Journal(), fails(short, short), recovers=False)
    assert (await recovered(journal, fails(short))).why is None
    reading = await recovered(journal, fails(short, short))
    assert journal.asked == ["newest", "whole", AGAIN]
    assert reading.why == "HistoryTooShort: it begins at b.000002:4"


@pytest.mark.parametrize("error", [PositionUnknown("of another server"), UNREADABLE])
async def test_a_history_that_cannot_be_used_at_the_cursor_begins_again(
    error: AqueductError,
) -> None:
    journal = Journal()
    key = ", key history/shop/s/b/4" if error is UNREADABLE else ""
    assert (await recovered(journal, fails(error))).why == f"{error.name}: {error.detail}{key}"
    with pytest.raises(type(error)):
        await recovered(journal, fails(error), recovers=False)


async def test_other_errors_of_a_start_are_no_reason_to_begin_again() -> None:
    journal = Journal()
    with pytest.raises(PositionPurged):
        await recovered(journal, fails(PositionPurged("gone")))
    assert AGAIN not in journal.asked


async def test_without_a_cursor_only_a_start_that_names_a_position_is_one() -> None:
    journal = Journal(has_cursor=False)
    reading = journal.reading()
    state = await reading.state()
    assert journal.asked == ["newest"]
    with pytest.raises(StateUnknown, match=r"continues at the cursor.*no_data"):
        reading.check(state, Latest())
    for start in (Earliest(), AtCoordinates(Coordinates("binlog.000001", 4))):
        reading.check(state, start)
    journal.reading(recovers=False).check(state, Latest())
    # Its first start has carried the request out.
    (recovery,) = journal.ran(reading, opened(begun("orders")))
    assert recovery.why == "first start"
    assert await run(journal) == []
    reading.check(journal.state, Latest())


async def test_records_to_be_removed_precede_the_record_of_the_recovery() -> None:
    journal = Journal()
    journal.state.removed = (b"history/shop/x", b"resolved/shop/y")
    reading = journal.reading()
    state = await reading.state()
    notes = reading.notes(state, opened(begun("orders")))
    gone = [key for key, value in notes if is_tombstone(StoredRecord(key, value, 0))]
    assert gone == [b"history/shop/x", b"resolved/shop/y"]
    assert [key for key, _ in notes][2:] == [b"recovery/shop/last"]


async def test_while_the_mode_is_set_each_run_asks_to_set_it_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    journal = Journal()
    for expected in ("with 1 table(s); set", "which is done once; set"):
        caplog.clear()
        reading = journal.reading()
        state = await reading.state()
        (warning,) = reading.warnings(state, opened(begun("orders")))
        journal.ran(reading, opened())
        assert str(CURSOR.offset) in warning
        assert expected in warning
        assert warning in caplog.text
    journal.errors["newest"] = UNREADABLE
    reading = journal.reading()
    (warning,) = reading.warnings(await reading.state(), opened())
    assert (
        "could not be used: JournalUnreadable: x, key history/shop/s/b/4; set the mode" in warning
    )
    assert journal.reading(recovers=False).warnings(journal.state, opened()) == []
