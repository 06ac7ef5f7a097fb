"""Canal's ``conf`` folder as values: ``canal.properties``, and one folder for each instance.

Invariant: values are as Canal would use them: system properties and the environment first, then the
instance's own file, then ``canal.properties``, with placeholders resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from app.migrate.draft import Entry
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


# The keys of one Canal server or instance, looked up without regard to case.
#
# Invariant: an instance's own keys take precedence over those of `canal.properties`. A number in
# a key, as in `address9` or `master1.address`, assigns the key to this member of a group.

_MEMBER = re.compile(r"(canal\.instance\.(?:master|standby))(\d+)(\..+)")
_NUMBERED = re.compile(r"(canal\.(?:instance|mq)\..*?[a-z])(\d+)")
_TRUE = frozenset({"true", "yes", "on"})
ADDRESS = "canal.instance.master.address"


class Keys:
    """Entries by their plain names in lower case."""

    def __init__(self, *layers: Iterable[tuple[str, Entry]]) -> None:
        self._found = {name: entry for layer in layers for name, entry in layer}

    def __iter__(self) -> Iterator[tuple[str, Entry]]:
        """Return each plain name with its entry."""
        return iter(self._found.items())

    def get(self, name: str) -> Entry | None:
        """Return the entry of a key that has a value."""
        entry = self._found.get(name.lower())
        return entry if entry is not None and entry.value else None

    def stated(self, name: str, default: str) -> Entry:
        """Return a key with its value, or with Canal's default, which the report names."""
        return self.get(name) or Entry(key=name, value=default, file=f"default of Canal: {default}")

    def first(self, *names: str) -> Entry | None:
        """Return the first of several keys that has a value."""
        return next(filter(None, map(self.get, names)), None)

    def text(self, name: str, default: str = "") -> str:
        """Return the value of a key."""
        entry = self.get(name)
        return entry.value if entry else default

    def is_true(self, name: str, *, default: bool = False) -> bool:
        """Return whether a switch is on."""
        entry = self.get(name)
        return entry.value.lower() in _TRUE if entry else default


def named(entries: Iterable[Entry]) -> list[tuple[str, Entry]]:
    """Return entries with their names in lower case."""
    return [(entry.key.lower(), entry) for entry in entries]


def members(entries: Iterable[Entry]) -> dict[str, list[tuple[str, Entry]]]:
    """Return the entries of each member of a group by its number; "" has the keys without a number."""
    found: dict[str, list[tuple[str, Entry]]] = {"": []}
    for name, entry in named(entries):
        plain, number = _split(name)
        found.setdefault(number, []).append((plain, entry))
    return {number: keys for number, keys in found.items() if not number or ADDRESS in dict(keys)}


def plain_name(key: str) -> str:
    """Return the name of a key in lower case, without the number of a member."""
    return _split(key.lower())[0]


def number_of(key: str) -> str:
    """Return the number of the member that a key belongs to; empty for other keys."""
    return _split(key.lower())[1]


def _split(name: str) -> tuple[str, str]:
    if match := _MEMBER.fullmatch(name):
        return match[1] + match[3], match[2]
    if match := _NUMBERED.fullmatch(name):
        return match[1], match[2]
    return name, ""


# Canal's cursors: `meta.dat`, `parse.dat`, and the JSON of its ZooKeeper nodes `cursor` and
# `parse`.
#
# Format: fastjson's serialization of LogPosition, in which the field of the position is spelled
# `postion`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The last change that a client acknowledged, or that Canal's parser delivered."""

    client: str
    """The client's id; empty for the parser's own position."""
    host: str
    port: int
    file: str
    position: int
    timestamp: int
    """Milliseconds since 1970 by the server's clock; 0 if unknown."""
    gtid_set: str
    filter: str = ""
    """The client's own filter, which replaces the instance's filter."""

    @property
    def age(self) -> tuple[int, str, int]:
        """The sort key of the cursors of one instance."""
        return self.timestamp, self.file, self.position


def read_cursors(content: bytes, name: str) -> list[Cursor]:
    """Return the cursors of a file, empty if no client has one; raise UsageError for a file of another kind."""
    try:
        found = orjson.loads(content)
        if "clientDatas" in found:
            return [_of_client(one) for one in found["clientDatas"] if one.get("cursor")]
        return [_cursor(found, client="", own_filter="")]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            f"{name} is no cursor of Canal",
            remedy="Give meta.dat, parse.dat, or the content of the ZooKeeper node "
            "/otter/canal/destinations/NAME/CLIENT/cursor",
        ) from None


def _of_client(data: dict[str, Any]) -> Cursor:
    identity = data["clientIdentity"]
    return _cursor(
        data["cursor"],
        client=str(identity.get("clientId", "")),
        own_filter=identity.get("filter") or "",
    )


def _cursor(found: dict[str, Any], *, client: str, own_filter: str) -> Cursor:
    position = found.get("postion") or found["position"]
    address = (found.get("identity") or {}).get("sourceAddress") or {}
    return Cursor(
        client=client,
        host=str(address.get("address") or address.get("hostName") or ""),
        port=int(address.get("port") or 0),
        file=str(position.get("journalName") or ""),
        position=int(position.get("position") or 0),
        timestamp=int(position.get("timestamp") or 0),
        gtid_set="".join(str(position.get("gtid") or "").split()),
        filter=own_filter,
    )


def cursor_file(conf: Path, name: str, server: Keys, given: Path | None) -> Path | None:
    """Return the file with an instance's cursors: the given file, else the clients', else the parser's."""
    if given is not None:
        if not given.is_file():
            raise UsageError(f"{given} is not a file")
        return given
    folder = Path(server.text("canal.file.data.dir", "../conf"))
    data = (conf.absolute().parent / "bin" / folder).resolve()
    candidates = [
        place / name / file for file in ("meta.dat", "parse.dat") for place in (data, conf)
    ]
    return next((one for one in candidates if one.is_file()), None)
