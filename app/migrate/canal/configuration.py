"""Canal's ``conf`` folder as values: ``canal.properties``, and one folder for each instance.

Invariant: values are as Canal would use them: system properties and the environment first, then the
instance's own file, then ``canal.properties``, with placeholders resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.migrate.canal.configuration_keys import ADDRESS, Keys, members, named
from app.migrate.canal.cursors import Cursor, cursor_file, read_cursors
from app.migrate.findings import Entry
from app.migrate.properties import decoded, lookup_in, parse, resolved
from connectors.errors import UsageError

SERVER_FILE = "canal.properties"
INSTANCE_FILE = "instance.properties"
_FAMILIES = ("canal.", "kafka.", "rocketmq.", "rabbitmq.", "pulsarmq.")
_RANGE = re.compile(r"(.*?)\{(\d+)-(\d+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What Canal reads in addition to its files, and cursors that are not in Canal's own files."""

    system_properties: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    cursor_files: Mapping[str, Path] = field(default_factory=dict)
    """Files with the content of ZooKeeper nodes, by instance."""

    def overrides(self) -> list[Entry]:
        """Return the keys of Canal that the environment or a system property sets."""
        found = {
            key: Entry(key=key, value=value.strip(), file=origin)
            for origin, place in (
                ("environment", self.environment),
                ("system property", self.system_properties),
            )
            for key, value in place.items()
            if key.lower().startswith(_FAMILIES)
        }
        return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance of Canal, or one member of a group of them."""

    name: str
    number: str
    """The number of the member in its group; empty without a group."""
    keys: Keys
    """The instance's keys, and the server's keys for all instances."""
    cursors: tuple[Cursor, ...]
    cursor_file: str

    @property
    def file(self) -> str:
        """The file with its keys."""
        return f"{self.name}/{INSTANCE_FILE}"

    @property
    def label(self) -> str:
        """The instance's name, with its number in the group."""
        return f"{self.name}-{self.number}" if self.number else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A Canal server with all its instances."""

    server: Keys
    instances: tuple[Instance, ...]
    entries: tuple[Entry, ...]
    """All keys of all files."""
    missing: tuple[str, ...]
    """Instances that are listed but have no file."""
    not_run: tuple[str, ...]
    """Folders of instances that this server does not run."""


def read_configuration(folder: Path, surroundings: Surroundings) -> Configuration:
    """Read a ``conf`` folder, or the folder that contains it; raise UsageError without ``canal.properties``."""
    conf = folder if (folder / SERVER_FILE).is_file() else folder / "conf"
    if not (conf / SERVER_FILE).is_file():
        raise UsageError(f"{folder} has no {SERVER_FILE}", remedy="Name Canal's conf folder")
    raw = _raw(conf / SERVER_FILE, SERVER_FILE)
    plain = _resolved(raw, [], "", surroundings)
    server = Keys(named(plain), named(surroundings.overrides()))
    listed, present = _listed(server), _present(conf)
    run = present if server.is_true("canal.auto.scan") else [x for x in present if x in listed]
    read = [_read_instance(conf, name, raw, server, surroundings) for name in run]
    return Configuration(
        server=server,
        instances=tuple(one for instances, _ in read for one in instances),
        entries=(*plain, *surroundings.overrides(), *(e for _, entries in read for e in entries)),
        missing=tuple(name for name in listed if name not in present),
        not_run=tuple(name for name in present if name not in run),
    )


def _raw(path: Path, label: str) -> list[Entry]:
    """The entries of a file, with the placeholders as they are."""
    try:
        values = parse(decoded(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    return [Entry(key=key, value=value.strip(), file=label) for key, value in values.items()]


def _resolved(
    own: list[Entry], above: list[Entry], destination: str, surroundings: Surroundings
) -> list[Entry]:
    """Entries with their placeholders resolved, by these entries and by those of the server."""
    files = {"canal.conf.dir": "../conf", "canal.instance.destination": destination}
    files |= {entry.key: entry.value for entry in (*above, *own)}
    lookup = lookup_in(surroundings.system_properties, surroundings.environment, files)
    return [
        Entry(key=entry.key, value=resolved(entry.value, lookup).strip(), file=entry.file)
        for entry in own
    ]


def _listed(server: Keys) -> list[str]:
    """The instances that ``canal.properties`` names, as a list or as a range such as ``shard{1-8}``."""
    if spread := _RANGE.match(server.text("canal.destinations.expr")):
        return [f"{spread[1]}{at}" for at in range(int(spread[2]), int(spread[3]) + 1)]
    return [name.strip() for name in server.text("canal.destinations").split(",") if name.strip()]


def _present(conf: Path) -> list[str]:
    return sorted(found.parent.name for found in conf.glob(f"*/{INSTANCE_FILE}"))


def _read_instance(
    conf: Path, name: str, server_raw: list[Entry], server: Keys, surroundings: Surroundings
) -> tuple[list[Instance], list[Entry]]:
    """The members of an instance, and all entries of its file."""
    raw = _raw(conf / name / INSTANCE_FILE, f"{name}/{INSTANCE_FILE}")
    own = _resolved(raw, server_raw, name, surroundings)
    again = _resolved(server_raw, raw, name, surroundings)
    groups, overrides = members(own), named(surroundings.overrides())
    file = cursor_file(conf, name, server, surroundings.cursor_files.get(name))
    cursors = read_cursors(file.read_bytes(), str(file)) if file else []
    found = [
        Instance(
            name=name,
            number=number,
            keys=Keys(named(_same(server, again)), groups[""], keys, overrides),
            cursors=tuple(cursors),
            cursor_file=f"{name}/{file.name}" if file else "",
        )
        for number, keys in groups.items()
    ]
    numbered = [one for one in found if one.number]
    has_plain = ADDRESS in dict(groups[""])
    return (found if has_plain or not numbered else numbered), own


def _same(server: Keys, again: list[Entry]) -> Iterator[Entry]:
    """The server's entries as they are reported, with the values that an instance sees."""
    values = {entry.key: entry for entry in again}
    for _, entry in server:
        yield values.get(entry.key, entry)
