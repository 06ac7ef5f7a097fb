"""Names of real tables as mapping documents write them: literal names, patterns and ranges.

Invariant: a name without any of ``. ^ $ * + ? { } [ ] | ( ) \\`` is literal; every other name is a
regular expression over the whole name, without regard to case, as in Canal's filter. ``[0-63]``, with a
bound of several digits, is a range of numbers: as a character class it could only be a mistake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPECIAL = re.compile(r"[.^$*+?{}\[\]|()\\]")
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
_SEPARATOR = re.compile(r"\\?\.(?![*+?{])")
_LARGEST_RANGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RealName:
    """One name or pattern of a document."""

    text: str
    database: str
    """The expression for the database; empty: any."""
    name: str
    literal: bool

    @classmethod
    def of_database(cls, text: str) -> RealName:
        """The name of a database; raise ValueError for an invalid pattern."""
        return cls._made(text, "", text)

    @classmethod
    def of_table(cls, text: str) -> RealName:
        """A ``table`` or ``database.table``; raise ValueError for an invalid pattern."""
        for found in _SEPARATOR.finditer(text):
            if _depth(text[: found.start()]) == 0:
                return cls._made(text, text[: found.start()], text[found.end() :])
        return cls._made(text, "", text)

    @classmethod
    def _made(cls, text: str, database: str, name: str) -> RealName:
        if not name:
            raise ValueError(f"{text!r} names no table")
        one = cls(
            text=text,
            database=_expanded(database),
            name=_expanded(name),
            literal=not _SPECIAL.search(database + name),
        )
        if one.literal:
            return one
        try:
            re.compile(one.expression)
        except re.error as error:
            raise ValueError(f"{text!r} is not a regular expression: {error}") from None
        return one

    @property
    def rank(self) -> int:
        """The precedence of a match: with a database before without, literal before pattern."""
        return 2 * bool(self.database) + self.literal

    @property
    def expression(self) -> str:
        """The regular expression over ``database.table``, or over the name if there is no database."""
        return rf"(?:{self.database})\.(?:{self.name})" if self.database else f"(?:{self.name})"


def listed(text: str) -> tuple[str, ...]:
    """The parts of a list with commas; a comma within brackets belongs to a pattern."""
    parts: list[str] = []
    for part in text.split(","):
        if parts and _depth(parts[-1]) > 0:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return tuple(part.strip() for part in parts)


def _depth(text: str) -> int:
    bare = re.sub(r"\\.", "", text)
    return sum(bare.count(one) for one in "([{") - sum(bare.count(one) for one in ")]}")


def _expanded(text: str) -> str:
    return _RANGE.sub(_range, text)


def _range(found: re.Match[str]) -> str:
    """The numbers of a range; a first bound such as 00 sets their width."""
    low, high = found.groups()
    if len(low) == len(high) == 1:
        return found[0]
    if not 0 <= int(high) - int(low) < _LARGEST_RANGE:
        raise ValueError(f"{found[0]} is not a range of 1 to {_LARGEST_RANGE} numbers")
    width = len(low) if low.startswith("0") else 1
    return f"(?:{'|'.join(f'{one:0{width}}' for one in range(int(low), int(high) + 1))})"
