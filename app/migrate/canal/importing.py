"""The import of Canal's conf folder: settings, mapping and report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from app.migrate.canal.configuration import (
    Configuration,
    Instance,
    Surroundings,
    read_configuration,
)
from app.migrate.canal.configuration_keys import ADDRESS, Keys, number_of, plain_name
from app.migrate.canal.instance import client_filters, convert_instance
from app.migrate.canal.known_keys import KNOWN
from app.migrate.canal.server import convert_schema_history, convert_server
from app.migrate.canal.start import convert_start
from app.migrate.canal.topics import convert_topics
from app.migrate.draft import Draft
from app.migrate.findings import Entry, Imported
from app.migrate.foreign_values import destination_name
from app.migrate.properties import is_unresolved
from connectors.errors import UsageError

# Canal's column filters as rules of a mapping.


_ALLOWED = "canal.instance.filter.field"
_BLACK = "canal.instance.filter.black.field"
_FIELD = re.compile(r"\s*([^.:\s]+)\.([^.:\s]+?)\s*:\s*([^:]*[^:/\s])\s*")


def convert_columns(draft: Draft, keys: Keys) -> None:
    """Put the columns to publish and the columns to drop, by table."""
    if allowed := keys.get(_ALLOWED):
        for table, columns in _tables(draft, allowed):
            draft.take_rule(allowed, ("tables", table, "columns"), columns)
    if black := keys.get(_BLACK):
        for table, columns in _tables(draft, black):
            for column in columns:
                draft.take_rule(black, ("tables", table, "column_actions", column), "drop")


def _tables(draft: Draft, entry: Entry) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Tables with their columns, as ``database.table:column/column``."""
    for item in filter(str.strip, entry.value.split(",")):
        if match := _FIELD.fullmatch(item):
            columns = tuple(one.strip() for one in match[3].split("/") if one.strip())
            yield f"{match[1]}.{match[2]}", columns
        else:
            text = f"{item.strip()} is not database.table:column/column, so Canal ignores it"
            draft.by_hand(entry, text)


# Where Canal keeps its cursors, by the Spring file of an instance: memory, files, ZooKeeper.


_JOURNAL = "Aqueduct commits the cursor to the journal topic, with the rows"
_MODES = {
    "memory-instance.xml": f"Canal kept cursors in memory only; {_JOURNAL}",
    "file-instance.xml": f"Canal wrote cursors to meta.dat after a while; {_JOURNAL}",
    "default-instance.xml": f"Canal wrote cursors to ZooKeeper after a while; {_JOURNAL}",
    "group-instance.xml": "Canal read several masters as one; here each is a destination, and a mapping "
    "can make their tables one logical table",
}
_OTHER = f"a Spring file of your own; {_JOURNAL}"
_IN_ZOOKEEPER = "default-instance.xml"
_EXPORT = (
    "its cursor is in ZooKeeper: save `zkCli.sh get /otter/canal/destinations/{name}/1001/cursor` in a "
    "file and import again with --cursor {name}=FILE; without it the start is that of instance.properties"
)
_MANAGER = "the configuration is in canal-admin; export its files into DIR and import again"


def convert_meta_mode(draft: Draft, instance: Instance) -> None:
    """Report the mode of an instance, and a cursor that has to be exported first."""
    keys = instance.keys
    own = f"canal.instance.{instance.name}"
    xml = keys.first(f"{own}.spring.xml", "canal.instance.global.spring.xml")
    if xml is not None:
        file = xml.value.rpartition("/")[2]
        draft.instead(xml, _MODES.get(file, _OTHER))
        if file == _IN_ZOOKEEPER and not instance.cursors:
            draft.note(instance.label, _EXPORT.format(name=instance.name))
    mode = keys.first(f"{own}.mode", "canal.instance.global.mode")
    if mode is not None and mode.value.lower() == "manager":
        draft.by_hand(mode, _MANAGER)


_SETTINGS = ("Settings of Aqueduct, imported from Canal. docs/settings.md explains each.",)
_MAPPING = (
    "A mapping of Aqueduct, imported from Canal: topics, partitions and columns of tables.",
)


def import_canal(folder: Path, surroundings: Surroundings, *, prefix: str) -> Imported:
    """Return the settings, mapping and report for a ``conf`` folder; raise UsageError if it has no instance."""
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
