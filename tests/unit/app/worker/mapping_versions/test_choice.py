from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from app import metrics
from app.worker.mapping_versions.choice import MappingChoice
from app.worker.mapping_versions.watch import RefusedVersion, UsableVersion
from app.worker.pipeline.rules import PublishingRules
from app.worker.status import DestinationStatus, State
from connectors.errors import MappingError, RunRestarts
from connectors.kafka.reading import StoredRecord
from connectors.mysql.position import Coordinates, SourceOffset
from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.mapping import Mapping
from tables.rules.mapping.stored_version import StoredVersion
from tables.rules.routes.routes import Routes
from tables.state.cursor import Cursor, Resume
from tables.state.journal.state import DestinationState

RULES = PublishingRules(
    destination="shop",
    routes=Routes(prefix="p", destination="shop"),
    markers=False,
    compression=None,
    max_bytes=1 << 20,
    max_batch_bytes=1 << 20,
    oversize="stop",
)


def offset(pos: int) -> SourceOffset:
    """A position of the source."""
    return SourceOffset(server_uuid="u", coordinates=Coordinates("bin.000001", pos))


CURSOR = Cursor(
    destination="shop", installation="i", epoch=2, seq=40, versions=0,
    offset=offset(400),
)  # fmt: skip
WITHIN = replace(CURSOR, resume=Resume(transaction_id="t", rows=5, published=5, part=1))
TABLES = frozenset({("db", "a")})


def usable(number: int, text: str = "tables: {a: {topic: x}}") -> UsableVersion:
    mapping = from_yaml(text)
    stored = StoredVersion.of(mapping, number=number, by="a", why="b", ts_ms=1)
    return UsableVersion(number=number, digest=mapping.digest, mapping=mapping, stored=stored)


class Stored:
    """The twin of the watch."""

    def __init__(self, *versions: UsableVersion) -> None:
        self.versions = {one.number: one for one in versions}
        self.newest: UsableVersion | None = versions[-1] if versions else None
        self.refused: RefusedVersion | None = None

    async def first(self) -> None:
        """They are known at once."""

    async def version(self, number: int, copy: StoredVersion | None = None) -> UsableVersion:
        if copy is not None and copy.number == number:
            return usable(number, copy.to_yaml())
        try:
            return self.versions[number]
        except KeyError:
            raise MappingError(f"version {number} is not in ZooKeeper") from None


class Runs:
    """The runs of one destination, and its journal; the choice of another worker may follow.

    Each run takes ``start_seconds`` to start, by a clock of its own, and has then published for a minute.
    """

    def __init__(self, mappings: Stored) -> None:
        self.mappings, self.records = mappings, list[StoredRecord]()
        self.now, self.start_seconds = 0.0, 0.0
        self.tables = TABLES
        self.other_worker()

    def other_worker(self) -> None:
        self.status = DestinationStatus("shop")
        self.choice = MappingChoice(
            destination="shop", mappings=self.mappings, status=self.status, clock=lambda: self.now
        )

    async def run(self, cursor: Cursor = CURSOR) -> tuple[str, ...]:
        """One run that has published for a while; returns the topics of its mapping."""
        topics = await self.start(cursor)
        with contextlib.suppress(RunRestarts):
            self.choice.check(cursor)
        self.now += 60
        return topics

    async def start(self, cursor: Cursor = CURSOR) -> tuple[str, ...]:
        """One run up to its claim; returns the topics of its mapping."""
        rules = await self.choice.rules_of(RULES)
        self.now += self.start_seconds
        state = DestinationState("shop")
        for record in self.records:
            state.apply(record)
        state.cursor = cursor
        try:
            self.choice.journal_read(state)
            notes = self.choice.notes(cursor, rules.routes, self.tables)
            notes += self.choice.kept(state)
        except MappingError as error:
            if not self.choice.refuse(error):
                raise
            return await self.start(cursor)
        except RunRestarts:
            return await self.start(cursor)
        for key, value in notes:
            self.records.append(StoredRecord(offset=len(self.records), key=key, value=value))
        self.choice.claimed()
        assert isinstance(rules.routes.mapping, Mapping)
        return rules.routes.mapping.topics

    def push(self, one: UsableVersion) -> None:
        self.mappings.versions[one.number] = one
        self.mappings.newest = one


X, Y = "tables: {a: {topic: x}}", "tables: {a: {topic: y}}"
COLLIDING = "tables: {other: {from: [none], topic: db.a}}"


async def test_a_version_comes_into_force_once_with_its_position_in_the_journal() -> None:
    runs = Runs(Stored(usable(1)))
    assert await runs.run() == ("x",)
    assert await runs.run() == ("x",)
    assert [record.key for record in runs.records] == [b"mapping/shop/1", b"mapping_copy/shop"]
    assert runs.status.mapping == {
        "version": 1, "since": str(CURSOR.offset), "waiting": None, "refused": None,
    }  # fmt: skip


async def test_a_new_version_ends_the_run_between_transactions_only() -> None:
    runs = Runs(Stored(usable(1)))
    await runs.run()
    runs.choice.check(CURSOR)
    runs.push(usable(2, Y))
    runs.choice.check(WITHIN)
    with pytest.raises(RunRestarts, match="version 2 of the mapping"):
        runs.choice.check(CURSOR)
    assert await runs.run() == ("y",)
    runs.choice.check(CURSOR)


def ends_for_a_newer_version(runs: Runs, cursor: Cursor) -> bool:
    """Whether the run ends at this cursor."""
    try:
        runs.choice.check(cursor)
    except RunRestarts:
        return True
    return False


async def test_a_run_publishes_as_long_as_its_start_took_before_it_ends_for_another_version() -> (
    None
):
    runs, number = Runs(Stored(usable(1))), 1
    runs.start_seconds = 3.0
    published = 0.0
    for turn in range(5):
        await runs.start()
        assert runs.status.mapping is not None
        # It takes the newest one, and no version between.
        assert runs.status.mapping["version"] == number
        began, at = runs.now, CURSOR
        # A version each 0.2 s, while rows are committed all the time.
        while not ends_for_a_newer_version(runs, at):
            runs.now += 0.2
            number += 1
            runs.push(usable(number, (X, Y)[number % 2]))
            at = replace(at, seq=at.seq + 1, offset=offset(at.offset.coordinates.pos + 10))
        published += runs.now - began
        assert runs.now - began < 3.5, turn
    assert published >= 5 * 3.0


async def test_a_run_that_starts_at_once_publishes_for_a_second() -> None:
    runs, later = Runs(Stored(usable(1))), replace(CURSOR, offset=offset(500))
    await runs.start()
    runs.push(usable(2, Y))
    assert not ends_for_a_newer_version(runs, CURSOR)
    runs.now += 0.9
    assert not ends_for_a_newer_version(runs, later)
    runs.now += 0.2
    assert ends_for_a_newer_version(runs, later)


async def test_a_run_without_rows_ends_for_a_newer_version_too() -> None:
    runs = Runs(Stored(usable(1)))
    await runs.start()
    runs.push(usable(2, Y))
    assert not ends_for_a_newer_version(runs, CURSOR)
    runs.now += 1.5
    assert not ends_for_a_newer_version(runs, CURSOR)
    runs.now += 4.0
    assert ends_for_a_newer_version(runs, CURSOR)


async def test_a_transaction_in_parts_ends_by_its_own_version_on_another_worker() -> None:
    runs = Runs(Stored(usable(1)))
    await runs.run()
    runs.push(usable(2, Y))
    runs.other_worker()
    assert await runs.run(WITHIN) == ("x",)
    assert runs.status.mapping is not None
    assert (runs.status.mapping["version"], runs.status.mapping["waiting"]) == (1, 2)
    with pytest.raises(RunRestarts):
        runs.choice.check(CURSOR)
    assert await runs.run() == ("y",)


async def test_a_worker_that_has_not_seen_the_version_in_force_reads_it() -> None:
    runs = Runs(Stored(usable(1), usable(2, Y)))
    await runs.run()
    runs.mappings.newest = usable(1)
    runs.other_worker()
    assert await runs.run() == ("y",)


async def test_a_version_that_the_tables_do_not_fit_is_refused_and_the_old_one_stays() -> None:
    runs = Runs(Stored(usable(1)))
    await runs.run()
    runs.push(usable(2, COLLIDING))
    for _ in ("this worker", "another"):
        assert await runs.run() == ("x",)
        runs.choice.check(CURSOR)
        assert runs.status.mapping is not None
        assert "is to Kafka the topic of" in str(runs.status.mapping["refused"])
        runs.other_worker()
    await runs.run()
    runs.push(usable(3, Y))
    with pytest.raises(RunRestarts):
        runs.choice.check(CURSOR)
    assert await runs.run() == ("y",)


async def test_nothing_is_published_without_a_version_or_by_an_older_one_at_the_first_start() -> (
    None
):
    with pytest.raises(MappingError, match="there is no version yet"):
        await Runs(Stored()).run()
    stored = Stored(usable(1))
    stored.refused = RefusedVersion(number=2, why="a key is missing")
    with pytest.raises(MappingError, match="a key is missing"):
        await Runs(stored).run()
    with pytest.raises(MappingError, match="is to Kafka the topic of"):
        await Runs(Stored(usable(1, COLLIDING))).run()


async def test_a_store_that_was_emptied_or_replaced_changes_nothing_until_a_version_is_stored() -> (
    None
):
    runs = Runs(Stored(usable(1), usable(2)))
    await runs.run()
    for present in (None, usable(1, Y), usable(2, Y)):
        runs.mappings.versions, runs.mappings.newest = {}, None
        if present is not None:
            runs.push(present)
        runs.other_worker()
        assert await runs.run() == ("x",)
        assert await runs.run() == ("x",)
        shown = runs.status.mapping or {}
        assert shown["waiting"] == (present and present.number)
        assert (present is None) == (shown["refused"] is None)
        assert present is None or "Store the mapping again" in str(shown["refused"])
    runs.push(usable(3, Y))
    assert await runs.run() == ("y",)


async def test_without_a_copy_in_the_journal_an_emptied_store_is_an_error_with_a_remedy() -> None:
    runs = Runs(Stored(usable(1), usable(2)))
    await runs.run()
    # As an earlier worker left the journal.
    runs.records = runs.records[:1]
    runs.mappings.versions, runs.mappings.newest = {}, None
    for present in (None, usable(1, Y)):
        if present is not None:
            runs.push(present)
        runs.other_worker()
        with pytest.raises(MappingError, match="version 2 is not in ZooKeeper"):
            await runs.run()
    runs.push(usable(2, Y))
    with pytest.raises(MappingError, match="--after 2"):
        await runs.run()
    runs.push(usable(3, Y))
    assert await runs.run() == ("y",)


async def test_a_refused_version_is_tried_again_by_a_command_and_not_by_another_worker() -> None:
    runs = Runs(Stored(usable(1)))
    await runs.run()
    runs.push(usable(2, COLLIDING))
    assert await runs.run() == ("x",)
    assert [record.key for record in runs.records[2:]] == [b"mapping_refused/shop"]
    # The tables fit by now.
    runs.tables = frozenset({("db", "b")})
    for _ in range(2):
        runs.other_worker()
        assert await runs.run() == ("x",)
        runs.choice.check(CURSOR)
        assert "is to Kafka the topic of" in str((runs.status.mapping or {})["refused"])
    # As `mapping rollback 2` stores it.
    runs.push(usable(3, COLLIDING))
    with pytest.raises(RunRestarts):
        runs.choice.check(CURSOR)
    assert await runs.run() == ("db.a",)


async def test_the_versions_are_metrics_only_of_the_worker_that_leads() -> None:
    def shown() -> tuple[float | None, ...]:
        names = ("aqueduct_mapping_version", "aqueduct_mapping_newest_version")
        value = metrics.REGISTRY.get_sample_value
        return tuple(value(name, {"destination": "shop"}) for name in names)

    runs = Runs(Stored(usable(1, X)))
    runs.choice.show()
    assert shown() == (None, None)
    runs.status.show(State.STARTING)
    await runs.choice.rules_of(RULES)
    assert shown() == (0, 1)
    await runs.run()
    assert shown() == (1, 1)
    runs.status.show(State.STANDBY)
    runs.push(usable(2, Y))
    # What each worker does at a new version.
    runs.choice.show()
    assert shown() == (None, None)
