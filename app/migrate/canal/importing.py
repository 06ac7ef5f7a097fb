"""The import of Canal's ``conf`` folder: settings, mapping and report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from app.migrate.canal.column_filters import convert_columns
from app.migrate.canal.configuration import (
    Configuration,
    Instance,
    Surroundings,
    read_configuration,
)
from app.migrate.canal.instance import client_filters, convert_instance
from app.migrate.canal.keys import ADDRESS, number_of, plain_name
from app.migrate.canal.known_keys import KNOWN
from app.migrate.canal.meta_mode import convert_meta_mode
from app.migrate.canal.server import convert_schema_history, convert_server
from app.migrate.canal.start import convert_start
from app.migrate.canal.topics import convert_topics
from app.migrate.draft import Draft
from app.migrate.findings import Imported
from app.migrate.names import destination_name
from app.migrate.placeholders import is_unresolved
from connectors.errors import UsageError

_SETTINGS = ("Settings of Aqueduct, imported from Canal. docs/settings.md explains each.",)
_MAPPING = (
    "A mapping of Aqueduct, imported from Canal: topics, partitions and columns of tables.",
)


def import_canal(folder: Path, surroundings: Surroundings, *, prefix: str) -> Imported:
    """Return what a ``conf`` folder means to Aqueduct; raise UsageError if it has no instance to read."""
    found = read_configuration(folder, surroundings)
    draft = Draft()
    draft.settings.put(("prefix",), prefix)
    convert_server(draft, found.server)
    draft.choose(("kafka", "bootstrap_servers"), "127.0.0.1:9092", "name your brokers")
    _destinations(draft, found)
    _account(draft, found)
    return draft.result(settings_head=_SETTINGS, mapping_head=_MAPPING)


def _destinations(draft: Draft, found: Configuration) -> None:
    names: set[str] = set()
    for instance in found.instances:
        if instance.keys.get(ADDRESS) is None:
            draft.note(instance.label, f"not imported: it has no {ADDRESS}")
            continue
        name = destination_name(instance.label, names)
        names.add(name)
        _destination(draft, ("destinations", name), instance)
    if not names:
        raise UsageError("no instance has a server", remedy=f"Each needs {ADDRESS}")


def _destination(draft: Draft, path: tuple[str, ...], instance: Instance) -> None:
    if instance.label != path[1]:
        draft.note(instance.label, f"its destination is named {path[1]}")
    convert_instance(draft, path, instance)
    convert_start(draft, path, instance)
    convert_schema_history(draft, instance.keys)
    convert_topics(draft, path, instance.keys)
    convert_columns(draft, instance.keys)
    convert_meta_mode(draft, instance)
    for own in client_filters(instance):
        draft.by_hand(own, f"replaced the instance's filter at run time: {own.value}")


def _account(draft: Draft, found: Configuration) -> None:
    for name in found.missing:
        draft.note(name, "listed in canal.destinations, but it has no instance.properties")
    for name in found.not_run:
        draft.note(
            name, "not imported: canal.destinations does not list it, and canal.auto.scan is off"
        )
    whole = {(instance.file, instance.number) for instance in found.instances}
    for entry in found.entries:
        number = number_of(entry.key)
        if number and (entry.file, number) not in whole:
            draft.by_hand(entry, f"its file has no {ADDRESS} with the number {number}")
        if is_unresolved(entry.value) and draft.is_accounted(entry):
            draft.by_hand(entry, f"a placeholder has no value: {', '.join(_names(entry.value))}")
    draft.account(((plain_name(entry.key), entry) for entry in found.entries), KNOWN)


def _names(text: str) -> Iterator[str]:
    return (part.partition("}")[0].partition(":")[0] for part in text.split("${")[1:])
