"""The keys of one Canal server or instance, looked up without regard to case.

Invariant: an instance's own keys take precedence over those of ``canal.properties``. A number in a key, as in
``address9`` or ``master1.address``, assigns the key to this member of a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from app.migrate.findings import Entry

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
