"""Java properties: their file format, and the placeholders in their values.

Format: https://docs.oracle.com/javase/8/docs/api/java/util/Properties.html#load-java.io.Reader-

Invariant: a file that is valid UTF-8 is read as UTF-8, since an operator wrote it so; any other file is read as
ISO-8859-1, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_BLANKS = " \t\f"


def decoded(content: bytes) -> str:
    """Return the text of a properties file."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def parse(text: str) -> dict[str, str]:
    """Return the values by key; if a key is given twice, the last value counts, as in Java."""
    found = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines that are neither blank nor comments, joined where one ends with an odd number of backslashes."""
    begun = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if not begun and line[:1] in ("", "#", "!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            begun += line[:-1]
            continue
        yield begun + line
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    """A text without its escapes; UTF-16 halves, as Java writes characters above U+FFFF, are joined."""
    plain = _ESCAPE.sub(_character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _character(found: re.Match[str]) -> str:
    sign = found[1]
    if len(sign) == 5:
        return chr(int(sign[1:], 16))
    return _CONTROL.get(sign, sign)


# Placeholders of Spring and Canal in values: `${name}` and `${name:default}`.
#
# Invariant: a name is looked up among Java's system properties, then the environment, then the file's own keys,
# as in Canal; a placeholder with neither a value nor a default stays as it is.


Lookup = Callable[[str], str | None]
_BEGIN = "${"


def lookup_in(*places: Mapping[str, str]) -> Lookup:
    """Return the lookup of a name in several places: the first value that is not blank."""

    def found(name: str) -> str | None:
        values = (place.get(name) for place in places)
        return next((value for value in values if value and value.strip()), None)

    return found


def resolved(text: str, lookup: Lookup, within: tuple[str, ...] = ()) -> str:
    """Return a text with its placeholders replaced; a placeholder that would contain itself stays."""
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
