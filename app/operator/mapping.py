"""`mapping`: check, store, compare and restore mappings, and find the mapping by which a destination publishes.

A mapping assigns real tables to logical tables; its versions are stored in ZooKeeper.

Invariant: a version is stored only if a worker with these settings can publish by it, and only if the newest
version is the version that its author has seen. The journal determines which version is in force; the newest
version in ZooKeeper may not be in force yet, and a ZooKeeper that lost its data may lack the version in force.
So a new version is numbered after both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.audit.routes_in_force import RoutesInForce, Stretch
from app.operator.arguments import add_format, parse_table
from app.operator.journal_access import Journal
from app.operator.terminal import aligned_table, operator, print_answer, run_operation
from app.settings.mapping import read_mapping
from app.settings.model import Settings, load
from app.worker.mapping_versions.store import MappingStore
from app.worker.wiring import coordination_plan
from connectors.errors import (
    KafkaDenied,
    KafkaLost,
    MappingConflict,
    MappingError,
    StateUnknown,
    UsageError,
)
from connectors.mysql.ddl.definition import TableName
from connectors.zookeeper.kazoo_session import opens
from tables.rules.mapping.mapping import Difference, MappedTable, Mapping, differences
from tables.rules.mapping.stored_version import StoredVersion
from tables.rules.routes.routes import Routes
from tables.state.journal.state import DestinationState
from tables.state.mapping_in_force import MAPPING_PART, MappingInForce, MappingsInForce
from wire.text import printed, utc


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version that was stored, and what it changes."""

    version: StoredVersion
    before: int
    """The newest version before it, in ZooKeeper or in the journal; 0: none."""
    differences: tuple[Difference, ...]


@asynccontextmanager
async def mapping_store(settings: Settings) -> AsyncIterator[MappingStore]:
    """Open the store that the settings name; raise UsageError if they name a file."""
    coordination = coordination_plan(settings)
    if settings.mapping.store != "zookeeper" or coordination is None:
        raise UsageError(
            "the settings read the mapping from mapping.file; set mapping.store to zookeeper first, "
            "on every worker"
        )
    client, root, _ = coordination
    async with opens(client)(lambda: None) as session:
        yield MappingStore(session, root)


async def version_of(store: MappingStore, number: int | None) -> StoredVersion:
    """Return a version, or the newest; raise MappingError if there is none."""
    if number is None:
        number = await newest_of(store)
    if number == 0:
        raise MappingError("there is no version yet; store one with `python -m app mapping set`")
    return await store.read(number)


async def newest_of(store: MappingStore) -> int:
    """Return the number of the newest version; 0: there is none."""
    return max(await store.numbers(), default=0)


async def given_mapping(store: MappingStore, text: str) -> Mapping:
    """Return the mapping that a number, ``newest``, or the path of a file or folder names."""
    if text == "newest" or text.isdecimal():
        found = await version_of(store, None if text == "newest" else int(text))
        return found.mapping()
    return read_mapping(Path(text))


async def store_mapping(
    settings: Settings,
    store: MappingStore,
    mapping: Mapping,
    *,
    by: str,
    why: str,
    after: int | None,
    restores: int | None = None,
) -> NewVersion:
    """Store a mapping as the version after the newest in ZooKeeper, and after those that the journal has.

    ``after`` is the newest version that the author has seen; None: any. Raise MappingError with all faults, or
    if the journal cannot be read, MappingConflict if another version is the newest, UsageError if nothing
    would change.
    """
    settings.mapping.usable(mapping, settings.prefix)
    newest = await newest_of(store)
    known, copy = await _known_in_journal(settings, is_needed=after is None)
    latest, has_lost = max(newest, known), known > newest
    # An earlier version that is restored was read from the store as it is now.
    seen = {latest, newest} if restores is not None else {latest}
    if after is not None and after not in seen and not (newest == 0 and after > latest):
        lost = ", which ZooKeeper has lost" if has_lost else ""
        raise MappingConflict(f"version {latest} is the newest{lost}, not {after}")
    if has_lost and copy is not None:
        before = copy.mapping()
    else:
        before = (await store.read(newest)).mapping() if newest else Mapping()
    # The newest version may be stored again, so that workers try a version again that the tables did not fit.
    is_again = restores is not None and restores == newest
    if newest and not has_lost and before.digest == mapping.digest and not is_again:
        raise UsageError(f"version {newest}, the newest, is equal; nothing was stored")
    version = StoredVersion.of(
        mapping,
        number=max(latest, after or 0) + 1,
        by=by,
        why=why,
        ts_ms=time.time_ns() // 1_000_000,
        restores=restores,
    )
    await store.add(version)
    return NewVersion(version=version, before=latest, differences=differences(before, mapping))


async def _known_in_journal(
    settings: Settings, *, is_needed: bool
) -> tuple[int, StoredVersion | None]:
    """Return the last version that a destination has published by or refused, and a copy of it; 0: none yet.

    A destination takes no version with a smaller number, and none with the number of one that it has refused.
    Raise MappingError if the journal cannot be read and the answer is needed.
    """
    greatest, copy = 0, None
    for name in settings.destinations:
        try:
            known = (await Journal.of(settings, name).latest_state()).parts[MAPPING_PART]
        except StateUnknown:
            return 0, None  # no worker has run with this prefix
        except (KafkaLost, KafkaDenied) as error:
            if not is_needed:
                return 0, None
            raise MappingError(
                "which version is in force is not known, as the journal cannot be read, and a version with a "
                f"smaller number would take no effect: {error.name}: {error.detail}",
                remedy="Repeat it once Kafka answers. Without Kafka: `python -m app mapping set FILE --why "
                "TEXT --after N`, where N is the newest version that `mapping history` or /status has shown.",
            ) from error
        last = known.last
        if last is not None and last.version > greatest:
            greatest, copy = last.version, known.copied(last)
        if known.refused is not None and known.refused[0] > greatest:
            greatest, copy = known.refused[0], None
    return greatest, copy


async def with_stored_mapping(settings: Settings) -> Settings:
    """Return settings with the newest stored mapping; unchanged if they do not name the store.

    Raise MappingError if there is no version, or if the newest version cannot be used.
    """
    if settings.mapping.store != "zookeeper":
        return settings
    async with mapping_store(settings) as store:
        mapping = settings.mapping.usable(
            (await version_of(store, None)).mapping(), settings.prefix
        )
    return settings.model_copy(update={"mapping": settings.mapping.with_mapping(mapping)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentMapping:
    """The mapping in force, and its name for a report."""

    name: str
    mapping: Mapping | None
    """None: each table is published under its own name."""


async def mapping_in_force(settings: Settings, state: DestinationState) -> PresentMapping:
    """Return the version that the journal names, or with mapping.store: file the settings' mapping.

    Its content is that of the journal's copy, as the store may have been pruned or emptied; without one, that
    of the store. Raise MappingError if no version is in force yet, or if it is in neither.
    """
    if settings.mapping.store != "zookeeper":
        file = settings.mapping.file
        name = f"the mapping of {file}" if file is not None else "no mapping"
        return PresentMapping(name=name, mapping=settings.mapping.mapping)
    known = state.parts[MAPPING_PART]
    last = known.last
    if last is None:
        raise MappingError(
            "no version of the mapping is in force yet; a version is once a worker publishes by it",
            destination=state.destination,
            remedy="Start the destination's worker, with a version stored by `python -m app mapping set`.",
        )
    stored = known.copied(last)
    if stored is None:
        async with mapping_store(settings) as store:
            stored = await _version_in_force(store, last)
    mapping = settings.mapping.usable(stored.mapping(), settings.prefix)
    return PresentMapping(name=f"version {last.version}", mapping=mapping)


async def with_mapping_in_force(settings: Settings, destination: str) -> Settings:
    """Return settings with the mapping that a destination publishes by; unchanged if they name no store.

    Before the destination's first run, this is the newest version, which the run will use. Raise MappingError
    if there is no such version, or if it cannot be used.
    """
    if settings.mapping.store != "zookeeper":
        return settings
    try:
        state = await Journal.of(settings, destination).latest_state()
    except StateUnknown:
        return await with_stored_mapping(settings)
    if state.parts[MAPPING_PART].last is None:
        return await with_stored_mapping(settings)
    mapping = (await mapping_in_force(settings, state)).mapping
    return settings.model_copy(update={"mapping": settings.mapping.with_mapping(mapping)})


async def routes_in_force(
    settings: Settings, routes: Routes, found: MappingsInForce
) -> RoutesInForce:
    """Return the routes of all versions by which a destination published.

    A version that can no longer be read is an error only for what was published by it.
    """
    stretches = []
    async with mapping_store(settings) as store:
        for one in found.in_order():
            try:
                stored = found.copied(one) or await _version_in_force(store, one)
                mapping = settings.mapping.usable(stored.mapping(), settings.prefix)
                of_version: Routes | MappingError = replace(routes, mapping=mapping)
            except MappingError as error:
                of_version = error
            stretches.append(Stretch(routes=of_version, seq=one.seq, position=one.position))
    return RoutesInForce(stretches) if stretches else RoutesInForce.always(routes)


async def _version_in_force(store: MappingStore, found: MappingInForce) -> StoredVersion:
    version = await store.read(found.version)
    if version.digest != found.digest:
        raise MappingError(
            f"version {found.version} in ZooKeeper is not the one in force, whose digest is {found.digest}",
            destination=found.destination,
            remedy="Store the mapping that is in force again: `python -m app mapping set FILE --why TEXT`.",
        )
    return version


def difference_lines(found: Iterable[Difference]) -> list[str]:
    """Return a line for each difference; if there is none, one line that states this."""
    lines = [
        f"{one.kind} {one.name}: {one.change}" + (f" ({', '.join(one.parts)})" if one.parts else "")
        for one in found
    ]
    return lines or ["no difference"]


def difference_values(found: Iterable[Difference]) -> list[dict[str, Any]]:
    """Return differences as JSON."""
    return [
        {"kind": one.kind, "name": one.name, "change": one.change, "parts": list(one.parts)}
        for one in found
    ]


def version_value(one: StoredVersion) -> dict[str, Any]:
    """Return a version as JSON, without its text."""
    return {
        "version": one.number,
        "digest": one.digest,
        "by": one.by,
        "time": utc(one.ts_ms),
        "why": one.why,
        "restores": one.restores,
    }


def stored_lines(new: NewVersion) -> list[str]:
    """Return the confirmation of a stored version."""
    return [
        f"version {new.version.number} is stored; "
        + (f"version {new.before} was the newest" if new.before else "it is the first"),
        *difference_lines(new.differences),
        "Each destination publishes by it from a transaction boundary of its own on: `mapping` in /status.",
    ]


def stored_value(new: NewVersion) -> dict[str, Any]:
    """Return the confirmation as JSON."""
    return {
        **version_value(new.version),
        "before": new.before or None,
        "differences": difference_values(new.differences),
    }


def configure_check(parser: argparse.ArgumentParser) -> None:
    """Take the mapping, and tables to ask for."""
    parser.add_argument(
        "mapping", type=Path, metavar="FILE", help="YAML, or a folder of the four JSON documents"
    )
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        type=parse_table,
        metavar="DB.TABLE",
        help="print what the mapping states about this real table; may be repeated",
    )
    add_format(parser)


def run_check(options: argparse.Namespace) -> int:
    """Check a mapping; if it has faults, raise an error that lists them all."""
    mapping = read_mapping(options.mapping)
    databases, tables = len(mapping.databases), len(mapping.tables)
    asked = [(table, mapping.of(table)) for table in options.table]
    lines = [
        f"{databases} logical databases, {tables} logical tables, no fault",
        f"sha256 {mapping.digest}",
        *(_checked_line(table, mapped) for table, mapped in asked),
    ]
    value = {
        "databases": databases,
        "tables": tables,
        "digest": mapping.digest,
        "asked": {".".join(table): mapped and _mapped_value(mapped) for table, mapped in asked},
    }
    print_answer(options.format, value, lines)
    return 0


def _checked_line(table: TableName, mapped: MappedTable | None) -> str:
    name = ".".join(table)
    if mapped is None:
        return f"{name}: not mapped; it is published under its own name"
    tags = ", ".join(one.label for one in mapped.tags) or "none"
    topic = f"<prefix>.{mapped.topic}" if mapped.topic else "that of its logical name"
    return f"{name}: {'.'.join(mapped.logical)}, topic {topic}, tags {tags}"


def _mapped_value(one: MappedTable) -> dict[str, Any]:
    return {
        "logical": ".".join(one.logical),
        "topic": one.topic or None,
        "tags": {tag.column: tag.name for tag in one.tags},
    }


def configure_get(parser: argparse.ArgumentParser) -> None:
    """Take the number of a version."""
    parser.add_argument(
        "version", type=int, nargs="?", metavar="VERSION", help="a number; default: the newest"
    )
    add_format(parser)


def run_get(options: argparse.Namespace) -> int:
    """Print a version: as YAML with author, time and reason in a comment, or as JSON."""
    found = run_operation(stored_version(load(), options.version))
    if options.format == "json":
        print_answer("json", version_value(found) | {"mapping": found.to_yaml()}, ())
        return 0
    head = f"version {found.number} by {found.by}, {utc(found.ts_ms)}: {found.why}"
    # One line, whatever the reason contains: the rest is YAML.
    sys.stdout.write(f"# {printed(head)}\n{found.to_yaml()}")
    return 0


async def stored_version(settings: Settings, number: int | None) -> StoredVersion:
    """Return a version, or the newest; raise MappingError if there is none."""
    async with mapping_store(settings) as store:
        return await version_of(store, number)


def configure_set(parser: argparse.ArgumentParser) -> None:
    """Take the mapping, the reason, and the version that it was made from."""
    parser.epilog = "A mapping with any fault is refused whole, and the newest version stays."
    parser.add_argument(
        "mapping", type=Path, metavar="FILE", help="YAML, or a folder of the four JSON documents"
    )
    _add_reason(parser)
    parser.add_argument(
        "--after",
        type=int,
        metavar="N",
        help="the version that this one was made from; refused if there is a newer one. In a store that was "
        "emptied: the last version before that",
    )
    add_format(parser)


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--why", required=True, metavar="TEXT", help="the reason, shown by `mapping history`"
    )


def run_set(options: argparse.Namespace) -> int:
    """Store a mapping as the newest version."""
    new = run_operation(
        set_mapping(load(), options.mapping, by=operator(), why=options.why, after=options.after)
    )
    print_answer(options.format, stored_value(new), stored_lines(new))
    return 0


async def set_mapping(
    settings: Settings, path: Path, *, by: str, why: str, after: int | None = None
) -> NewVersion:
    """Store the mapping of a file or folder as the newest version; see ``store_mapping``."""
    mapping = read_mapping(path)
    async with mapping_store(settings) as store:
        return await store_mapping(settings, store, mapping, by=by, why=why, after=after)


_FORMS = "a version's number, `newest`, or a file or folder"


def configure_diff(parser: argparse.ArgumentParser) -> None:
    """Take both sides."""
    parser.add_argument("old", metavar="OLD", help=_FORMS)
    parser.add_argument(
        "new", metavar="NEW", nargs="?", default="newest", help=f"the same: {_FORMS}"
    )
    add_format(parser)


def run_diff(options: argparse.Namespace) -> int:
    """Print the differences."""
    found = run_operation(mapping_differences(load(), options.old, options.new))
    print_answer(options.format, difference_values(found), difference_lines(found))
    return 0


async def mapping_differences(settings: Settings, old: str, new: str) -> tuple[Difference, ...]:
    """Return the differences of two mappings, each named as for ``given_mapping``."""
    async with mapping_store(settings) as store:
        return differences(await given_mapping(store, old), await given_mapping(store, new))


_HEAD = ("VERSION", "TIME", "BY", "DIGEST", "WHY")
_DEFAULT_LAST = 50


def configure_history(parser: argparse.ArgumentParser) -> None:
    """Take the number of versions."""
    parser.add_argument(
        "--last",
        type=int,
        default=_DEFAULT_LAST,
        metavar="N",
        help="versions (default: %(default)s)",
    )
    add_format(parser)


def run_history(options: argparse.Namespace) -> int:
    """Print the versions, the newest first."""
    found = run_operation(stored_versions(load(), max(1, options.last)))
    lines = aligned_table(_HEAD, [_version_row(one) for one in found])
    print_answer(options.format, [version_value(one) for one in found], lines)
    return 0


def _version_row(one: StoredVersion) -> tuple[str, ...]:
    why = one.why if one.restores is None else f"{one.why} (restores version {one.restores})"
    return str(one.number), utc(one.ts_ms), one.by, one.digest[:12], why


async def stored_versions(settings: Settings, most: int) -> list[StoredVersion]:
    """Return the newest versions, the newest first."""
    async with mapping_store(settings) as store:
        return [await store.read(one) for one in reversed((await store.numbers())[-most:])]


def configure_rollback(parser: argparse.ArgumentParser) -> None:
    """Take the version to restore, and the reason."""
    parser.epilog = "Records that were published meanwhile stay as they are."
    parser.add_argument("version", type=int, metavar="VERSION", help="the version to restore")
    _add_reason(parser)
    add_format(parser)


def run_rollback(options: argparse.Namespace) -> int:
    """Store an earlier version again, under a new number."""
    new = run_operation(restore_version(load(), options.version, by=operator(), why=options.why))
    print_answer(options.format, stored_value(new), stored_lines(new))
    return 0


async def restore_version(settings: Settings, number: int, *, by: str, why: str) -> NewVersion:
    """Store an earlier version again, as the newest."""
    async with mapping_store(settings) as store:
        newest, old = await newest_of(store), await version_of(store, number)
        return await store_mapping(
            settings, store, old.mapping(), by=by, why=why, after=newest, restores=old.number
        )


def configure_prune(parser: argparse.ArgumentParser) -> None:
    """Take the number of versions to keep."""
    parser.epilog = (
        "A destination publishes on by a version that is removed: it has a copy of it in the journal. An audit "
        "cannot judge what was published by it before."
    )
    parser.add_argument(
        "--keep", type=int, required=True, metavar="N", help="the newest N versions stay"
    )
    add_format(parser)


def run_prune(options: argparse.Namespace) -> int:
    """Remove all older versions."""
    removed = run_operation(remove_versions(load(), max(1, options.keep)))
    names = ", ".join(map(str, removed)) or "none"
    print_answer(options.format, {"removed": removed}, [f"removed versions: {names}"])
    return 0


async def remove_versions(settings: Settings, keep: int) -> list[int]:
    """Remove all versions but the newest ``keep``; return the removed numbers."""
    async with mapping_store(settings) as store:
        old = (await store.numbers())[:-keep]
        for number in old:
            await store.remove(number)
        return old
