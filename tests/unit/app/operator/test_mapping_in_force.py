"""The mapping in force: that of the journal, with the store's content, or that of the settings' file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from app.audit.routes_in_force import RoutesInForce
from app.operator import mapping as mapping_commands
from app.operator.journal_access import Journal
from app.operator.mapping import (
    NewVersion,
    PresentMapping,
    mapping_in_force,
    mapping_store,
    restore_version,
    routes_in_force,
    store_mapping,
    with_mapping_in_force,
)
from app.settings.model import load
from connectors.errors import (
    AqueductError,
    KafkaLost,
    MappingConflict,
    MappingError,
    StateUnknown,
)
from tables.rules.mapping.forms import from_yaml
from tables.rules.mapping.mapping import Mapping, differences
from tables.rules.mapping.stored_version import StoredVersion
from tables.rules.routes.routes import Routes
from tables.state.journal.state import DestinationState
from tables.state.mapping_in_force import MAPPING_PART, MappingInForce
from tests.harness.memory_zookeeper import MemoryServer
from tests.unit.app.settings.test_model import GOOD

X, Y, Z = (from_yaml(f"{{tables: {{a: {{topic: {topic}}}}}}}") for topic in "xyz")


def state(
    version: int | None = None, digest: str = "", copy: StoredVersion | None = None
) -> DestinationState:
    found = DestinationState("shop")
    found.parts[MAPPING_PART].copy = copy
    if version is not None:
        found.parts[MAPPING_PART].by_version[version] = MappingInForce(
            destination="shop", version=version, digest=digest, position="b.1:4", seq=0, ts_ms=0
        )
    return found


def version(number: int, of: Mapping) -> StoredVersion:
    return StoredVersion.of(of, number=number, by="ann", why="w", ts_ms=0)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    server, path = MemoryServer(), tmp_path / "aqueduct.yaml"
    monkeypatch.setattr(mapping_commands, "opens", lambda _client: server.opens)
    journal_has(monkeypatch, StateUnknown())
    monkeypatch.setenv("AQUEDUCT_CONFIG", str(path))
    path.write_text(f"{GOOD}mapping: {{store: zookeeper}}\nzookeeper: {{hosts: 'zk:2181'}}\n")
    return path


async def stored_and_found(of: DestinationState) -> PresentMapping:
    """The mapping in force once the store has two versions."""
    settings = load()
    async with mapping_store(settings) as store:
        for one in (X, Y):
            await store_mapping(settings, store, one, by="ann", why="w", after=None)
    return await mapping_in_force(settings, of)


@pytest.mark.usefixtures("config")
def test_it_is_the_version_of_the_journal_and_not_the_newest() -> None:
    found = asyncio.run(stored_and_found(state(1, X.digest)))
    assert (found.name, found.mapping) == ("version 1", X)


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("of", "error"),
    [
        (state(), "no version of the mapping is in force yet"),
        (state(1, Y.digest), "is not the one in force"),
        (state(7, X.digest), "version 7 is not in ZooKeeper"),
        # A copy of another version, as the one in force is too large.
        (state(7, X.digest, version(6, X)), "version 7 is not in ZooKeeper"),
        (state(7, X.digest, version(7, Y)), "version 7 is not in ZooKeeper"),
    ],
)
def test_without_it_there_is_no_trial(of: DestinationState, error: str) -> None:
    with pytest.raises(MappingError, match=error) as raised:
        asyncio.run(stored_and_found(of))
    assert "python -m app mapping set" in str(raised.value)
    assert "Correct its documents" not in str(raised.value)


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("number", [1, 2, 7])
def test_the_copy_in_the_journal_is_enough_whatever_the_store_has(number: int) -> None:
    found = asyncio.run(stored_and_found(state(number, Z.digest, version(number, Z))))
    assert (found.name, found.mapping) == (f"version {number}", Z)


def test_the_copy_needs_no_store(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.exists()
    monkeypatch.setattr(mapping_commands, "opens", None)
    found = asyncio.run(mapping_in_force(load(), state(3, Z.digest, version(3, Z))))
    assert found.mapping == Z


@pytest.mark.usefixtures("config")
def test_an_audit_judges_by_the_copy_too() -> None:
    of = state(1, X.digest).parts[MAPPING_PART]
    (first,) = of.in_order()
    of.by_version[3] = replace(first, version=3, digest=Z.digest, seq=10)
    of.by_version[2] = replace(first, version=2, digest=Z.digest, seq=5)
    of.copy = version(3, Z)

    async def found() -> RoutesInForce:
        await stored_and_found(state(1, X.digest))
        return await routes_in_force(load(), Routes(prefix="aq"), of)

    routes = asyncio.run(found())
    assert [routes.of_number(seq).mapping for seq in (5, 11)] == [X, Z]
    with pytest.raises(MappingError, match="version 2 in ZooKeeper is not the one in force"):
        routes.of_number(6)


def test_without_the_store_it_is_the_settings_own(config: Path, tmp_path: Path) -> None:
    config.write_text(GOOD)
    found = asyncio.run(mapping_in_force(load(), state()))
    assert (found.name, found.mapping) == ("no mapping", None)
    file = tmp_path / "mapping.yaml"
    file.write_text("{tables: {a: {topic: x}}}")
    config.write_text(f"{GOOD}mapping: {{file: {file}}}\n")
    found = asyncio.run(mapping_in_force(load(), state()))
    assert (found.name, found.mapping) == (f"the mapping of {file}", X)


@pytest.mark.usefixtures("config")
def test_commands_take_the_version_in_force_or_the_newest_before_the_first_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = state(1, X.digest)

    async def latest_state(_: Journal) -> DestinationState:
        return of

    asyncio.run(stored_and_found(of))
    monkeypatch.setattr(Journal, "latest_state", latest_state)
    assert asyncio.run(with_mapping_in_force(load(), "shop")).mapping.mapping == X
    of.parts[MAPPING_PART].by_version.clear()
    assert asyncio.run(with_mapping_in_force(load(), "shop")).mapping.mapping == Y


def journal_has(monkeypatch: pytest.MonkeyPatch, answer: DestinationState | AqueductError) -> None:
    async def latest_state(_: Journal) -> DestinationState:
        if isinstance(answer, AqueductError):
            raise answer
        return answer

    monkeypatch.setattr(Journal, "latest_state", latest_state)


def stored(
    mapping: Mapping, *, after: int | None = None, earlier: tuple[int, ...] = ()
) -> NewVersion:
    """A version of the mapping, in a store that has these versions, each the mapping X."""

    async def store() -> NewVersion:
        settings = load()
        async with mapping_store(settings) as opened:
            for number in earlier:
                await opened.add(version(number, X))
            return await store_mapping(settings, opened, mapping, by="ann", why="w", after=after)

    return asyncio.run(store())


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("earlier", [(), (1,), (1, 2)])
@pytest.mark.parametrize("after", [None, 3])
def test_a_version_follows_the_one_in_force_that_zookeeper_has_lost(
    earlier: tuple[int, ...], after: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal_has(monkeypatch, state(3, Z.digest, version(3, Z)))
    found = stored(X, after=after, earlier=earlier)
    assert (found.version.number, found.before) == (4, 3)
    assert found.differences == differences(Z, X)


@pytest.mark.usefixtures("config")
def test_a_version_made_from_an_older_one_than_is_in_force_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal_has(monkeypatch, state(3, Z.digest))
    with pytest.raises(
        MappingConflict, match="version 3 is the newest, which ZooKeeper has lost, not 2"
    ):
        stored(X, after=2)


@pytest.mark.usefixtures("config")
def test_a_version_follows_one_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known = state(3, Z.digest)
    known.parts[MAPPING_PART].refused = (4, "two tables are one topic")
    journal_has(monkeypatch, known)
    assert stored(X).version.number == 5


@pytest.mark.usefixtures("config")
def test_an_earlier_version_is_restored_after_the_one_in_force_that_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal_has(monkeypatch, state(3, Z.digest))
    stored(Y, earlier=(1,))
    found = asyncio.run(restore_version(load(), 1, by="ann", why="w"))
    assert (found.version.number, found.version.restores) == (5, 1)


@pytest.mark.usefixtures("config")
def test_without_the_journal_a_version_is_refused_with_the_option_that_stores_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal_has(monkeypatch, KafkaLost("no broker answers"))
    with pytest.raises(MappingError, match=r"no broker answers.*Repeat it.*--after N"):
        stored(X)
    assert stored(X, after=3).version.number == 4
