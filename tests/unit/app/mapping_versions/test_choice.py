from __future__ import annotations

from dataclasses import replace

import pytest

from app.mapping_versions.choice import MappingChoice
from app.mapping_versions.watch import RefusedVersion, UsableVersion
from app.pipeline.rules import Rules
from app.service.status import DestinationStatus
from connectors.errors import MappingError, RunRestarts
from connectors.kafka.reading.partition_reader import StoredRecord
from connectors.mysql.position import Coordinates, SourceOffset
from tables.cursor import Cursor, Resume
from tables.journal.state import DestinationState
from tables.mapping.yaml_form import from_yaml
from tables.routes.routes import Routes

RULES = Rules(
    destination="shop",
    routes=Routes(prefix="p", destination="shop"),
    markers=False,
    compression=None,
    max_bytes=1 << 20,
    max_batch_bytes=1 << 20,
)
CURSOR = Cursor(
    destination="shop", installation="i", epoch=2, seq=40, versions=0,
    offset=SourceOffset(server_uuid="u", coordinates=Coordinates("bin.000001", 400)),
)  # fmt: skip
WITHIN = replace(CURSOR, resume=Resume(transaction_id="t", rows=5, published=5, part=1))
TABLES = frozenset({("db", "a")})


def usable(number: int, text: str = "tables: {a: {topic: x}}") -> UsableVersion:
    mapping = from_yaml(text)
    return UsableVersion(number=number, digest=mapping.digest, mapping=mapping)


class Stored:
    """The twin of the watch."""

    def __init__(self, *versions: UsableVersion) -> None:
        self.versions = {one.number: one for one in versions}
        self.newest: UsableVersion | None = versions[-1] if versions else None
        self.refused: RefusedVersion | None = None

    async def first(self) -> None:
        """They are known at once."""

    async def version(self, number: int) -> UsableVersion:
        try:
            return self.versions[number]
        except KeyError:
            raise MappingError(f"version {number} is not in ZooKeeper") from None


class Runs:
    """The runs of one destination, and its journal; the choice of another worker may follow."""

    def __init__(self, mappings: Stored) -> None:
        self.mappings, self.records = mappings, list[StoredRecord]()
        self.other_worker()

    def other_worker(self) -> None:
        self.status = DestinationStatus("shop")
        self.choice = MappingChoice(destination="shop", mappings=self.mappings, status=self.status)

    async def run(self, cursor: Cursor = CURSOR) -> tuple[str, ...]:
        """One run up to its claim; returns the topics of its mapping."""
        rules = await self.choice.rules_of(RULES)
        state = DestinationState("shop")
        for record in self.records:
            state.apply(record)
        state.cursor = cursor
        try:
            self.choice.journal_read(state)
            notes = self.choice.notes(cursor, rules.routes, TABLES)
        except MappingError as error:
            if not self.choice.refuse(error):
                raise
            return await self.run(cursor)
        except RunRestarts:
            return await self.run(cursor)
        for key, value in notes:
            self.records.append(StoredRecord(offset=len(self.records), key=key, value=value))
        self.choice.claimed()
        assert rules.routes.mapping is not None
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
    assert len(runs.records) == 1
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


async def test_a_store_that_was_replaced_is_refused() -> None:
    runs = Runs(Stored(usable(1)))
    await runs.run()
    runs.mappings.versions, runs.mappings.newest = {}, None
    runs.push(usable(1, Y))
    with pytest.raises(MappingError, match="--after 1"):
        await runs.run()
