"""Placeholders of Spring and Canal in values: ``${name}`` and ``${name:default}``.

Invariant: a name is looked up among Java's system properties, then the environment, then the file's own
keys, as Canal does; one without a value and a default stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Lookup = Callable[[str], str | None]
_BEGIN = "${"


def lookup_in(*places: Mapping[str, str]) -> Lookup:
    """Return the lookup of a name in several places: the first value that is not blank."""

    def found(name: str) -> str | None:
        values = (place.get(name) for place in places)
        return next((value for value in values if value and value.strip()), None)

    return found


def resolved(text: str, lookup: Lookup, within: tuple[str, ...] = ()) -> str:
    """Return a text with its placeholders replaced; one that would contain itself stays."""
    begin = text.find(_BEGIN)
    end = _closing(text, begin + len(_BEGIN)) if begin >= 0 else -1
    if end < 0:
        return text
    inner = text[begin + len(_BEGIN) : end]
    value = _value(inner, lookup, within)
    shown = text[begin : end + 1] if value is None else value
    return text[:begin] + shown + resolved(text[end + 1 :], lookup, within)


def is_unresolved(text: str) -> bool:
    """Return whether a text still has a placeholder."""
    return _BEGIN in text


def _value(inner: str, lookup: Lookup, within: tuple[str, ...]) -> str | None:
    name, colon, default = inner.partition(":")
    found = None if name in within else lookup(name)
    if found is not None:
        return resolved(found, lookup, (*within, name))
    return resolved(default, lookup, within) if colon else None


def _closing(text: str, at: int) -> int:
    """The closing brace of a placeholder whose content begins at a position; -1 if there is none."""
    depth = 1
    while at < len(text):
        if text.startswith(_BEGIN, at):
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if not depth:
                return at
        at += 1
    return -1
