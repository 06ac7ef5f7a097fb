"""The mapping that a destination publishes by now, and those that it published by before.

Invariant: the journal determines them, and not the newest version in ZooKeeper, which may not be in force yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.audit.routes_in_force import RoutesInForce, Stretch
from app.operator.journal_access import Journal
from app.operator.operations.mapping.versions import mapping_store, with_stored_mapping
from app.settings.model import Settings
from app.worker.mapping_versions.store import MappingStore
from connectors.errors import MappingError, StateUnknown
from tables.rules.mapping.mapping import Mapping
from tables.rules.routes.routes import Routes
from tables.state.journal.state import DestinationState
from tables.state.mapping_in_force import MappingInForce


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentMapping:
    """The mapping in force, and its name for a report."""

    name: str
    mapping: Mapping | None
    """None: each table is published under its own name."""


async def mapping_in_force(settings: Settings, state: DestinationState) -> PresentMapping:
    """Return the version that the journal names, or with mapping.store: file the settings' mapping.

    Raises MappingError if no version is in force yet, or if the store lacks it or has another one.
    """
    if settings.mapping.store != "zookeeper":
        file = settings.mapping.file
        name = f"the mapping of {file}" if file is not None else "no mapping"
        return PresentMapping(name=name, mapping=settings.mapping.mapping)
    last = state.mappings.last
    if last is None:
        raise MappingError(
            "no version of the mapping is in force yet; a version is once a worker publishes by it",
            destination=state.destination,
        )
    async with mapping_store(settings) as store:
        mapping = await _version(settings, store, last)
    return PresentMapping(name=f"version {last.version}", mapping=mapping)


async def with_mapping_in_force(settings: Settings, destination: str) -> Settings:
    """Return settings with the mapping that a destination publishes by, where they name the store; else as
    they are. Before its first run that is the newest version, which the run will take.

    Raises MappingError if there is no such version, or if it cannot be used.
    """
    if settings.mapping.store != "zookeeper":
        return settings
    try:
        state = await Journal.of(settings, destination).latest_state()
    except StateUnknown:
        return await with_stored_mapping(settings)
    if state.mappings.last is None:
        return await with_stored_mapping(settings)
    mapping = (await mapping_in_force(settings, state)).mapping
    return settings.model_copy(update={"mapping": settings.mapping.with_mapping(mapping)})


async def routes_in_force(
    settings: Settings, routes: Routes, found: Iterable[MappingInForce]
) -> RoutesInForce:
    """Return routes by each of the versions that a destination published by; ``found``: in their order.

    A version that cannot be read any more is an error only for what was published by it.
    """
    stretches = []
    async with mapping_store(settings) as store:
        for one in found:
            try:
                mapping = await _version(settings, store, one)
                of_version: Routes | MappingError = replace(routes, mapping=mapping)
            except MappingError as error:
                of_version = error
            stretches.append(Stretch(routes=of_version, seq=one.seq, position=one.position))
    return RoutesInForce(stretches) if stretches else RoutesInForce.always(routes)


async def _version(settings: Settings, store: MappingStore, found: MappingInForce) -> Mapping:
    version = await store.read(found.version)
    if version.digest != found.digest:
        raise MappingError(
            f"version {found.version} in ZooKeeper is not the one in force, whose digest is {found.digest}",
            destination=found.destination,
        )
    return settings.mapping.usable(version.mapping(), settings.prefix)
